/* h5_gate.h - decides whether an HDF5 file is safe to read
   A seal protects a file against damage, not against its author. Before a file is read, its groups, links and datasets
   are checked: nothing outside the file is followed, and no size exceeds the capacity of the file. */
#ifndef MAXLOGIT_STORAGE_H5_GATE_H
#define MAXLOGIT_STORAGE_H5_GATE_H
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "base/text.h"

enum { H5_SIGNATURE = 8 };
extern const char h5_signature[H5_SIGNATURE + 1]; /* the first bytes of every HDF5 file */

/* Check the header before the library parses it: superblock version 2 or 3 (metadata have checksums) at offset 0,
   without extension. STATUS_USAGE otherwise. */
int h5_gate_header(const char *path, const char *bytes, size_t size, struct error *);

/* Check and read all objects of an open file of these `size` bytes, in a process that may crash (base/apart.h).
   STATUS_FAIL, with the object's name, for
   - a link other than a hard link, a cycle of links, a named datatype;
   - a dataset with external storage, a virtual dataset, a filter other than shuffle, deflate and Fletcher-32;
   - a dataset with a stated extent of more bytes than its storage can hold, or more than half of the memory;
   - an object header without a checksum, or attributes that do not fit into it;
   - values and attributes that cannot be read, or more of these than the file can hold.
   The attributes are appended to the list (h5_attributes_add). */
int h5_gate_objects(int64_t file, const char *bytes, size_t size, struct buffer *list, struct error *);
/* The attributes alone, of a file of this process. */
void h5_attributes_of(int64_t file, struct buffer *list);
/* The kind of a number's stored type, -1 if it is not one of the standard types of 1, 2, 4 or 8 bytes. */
int h5_number_kind(int64_t type);
/* The address of an object in its file. */
uint64_t h5_address(int64_t object);
#endif
