/* fuzz.h - what every fuzz target defines: one input; it aborts on a finding */
#ifndef MAXLOGIT_TESTS_FUZZ_FUZZ_H
#define MAXLOGIT_TESTS_FUZZ_FUZZ_H
#include <stddef.h>
#include <stdint.h>
extern unsigned fuzz_untaken; /* a bit for each kind of input; it is cleared when the reader has taken one */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
#endif
