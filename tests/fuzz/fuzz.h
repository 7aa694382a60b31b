/* fuzz.h - what every fuzz target defines: one input; it aborts on a finding */
#ifndef MAXLOGIT_TESTS_FUZZ_FUZZ_H
#define MAXLOGIT_TESTS_FUZZ_FUZZ_H
#include <stddef.h>
#include <stdint.h>
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
#endif
