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

/* Check and read all objects of an open file of `size` bytes, in a process that may crash (base/apart.h).
   STATUS_FAIL, with the object's name, for
   - a link other than a hard link, a cycle of links, a named datatype;
   - a dataset with external storage, a virtual dataset, a filter other than shuffle, deflate and Fletcher-32;
   - a dataset with a stated extent of more bytes than its storage can hold, or more than half of the memory;
   - values and attributes that cannot be read, or more texts than the file can hold.
   Texts of variable length are appended to the buffer (h5_texts_add). */
int h5_gate_objects(int64_t file, size_t size, struct buffer *texts, struct error *);
/* The address of an object in its file. */
uint64_t h5_address(int64_t object);
#endif
