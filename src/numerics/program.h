/* program.h - record once, replay every step
   The model is written once, forward only, through op_* (ops.h). Recording yields a static list of calls;
   program_backward appends the reverse; program_plan gives every temporary its place in one block. A step is then
   program_run: a loop over calls, no allocation. Data that varies between steps is an input tensor. */
#ifndef MAXLOGIT_NUMERICS_PROGRAM_H
#define MAXLOGIT_NUMERICS_PROGRAM_H
#include "numerics/device.h"

struct program;
struct program *program_new(struct device *);
void program_free(struct program *);

/* A tensor that the host fills before a run (tokens, positions, weights); no gradient. */
struct tensor *program_input(struct program *, enum tensor_type, long rows, long cols, const char *name);
/* A temporary; `name` must live as long as the program. */
struct tensor *program_temporary(struct program *, long rows, long cols, const char *name);
struct tensor *program_temporary_ints(struct program *, long rows, long cols, const char *name);
/* Columns [from, from + cols) of a tensor of the program, sharing its memory and gradient; or of a tensor from
   outside, whose memory must not move. */
struct tensor *program_view(struct program *, struct tensor *owner, long from, long cols);
/* Rows [row, row + rows) likewise, for recorded calls; gradients do not pass through it. */
struct tensor *program_rows(struct program *, struct tensor *owner, long row, long rows);
/* Columns from `from` on of a tensor of one row, as a matrix; gradients do not pass through it. */
struct tensor *program_matrix(struct program *, struct tensor *row, long from, long rows, long cols);
/* Tensors that hold these values from the start: indices, coefficients. */
struct tensor *program_ints(struct program *, long rows, long cols, const int *values, const char *name);
struct tensor *program_reals(struct program *, long rows, long cols, const double *values, const char *name);
/* Keep t's memory to the end of the run, so that the host can read it. */
void program_keep(struct program *, struct tensor *t);

/* Record one call; args is copied. */
void program_call(struct program *, enum op, const void *args);
#define PROGRAM_CALL(p, op, ...) program_call(p, OP_##op, &(struct op##_args){__VA_ARGS__})
/* Calls recorded from now on only run if this number [1] is not 0; NULL: always. */
void program_guard(struct program *, struct tensor *);
struct tensor *program_guard_of(const struct program *);
/* A step of the host between calls, where no operation fits (a decomposition by LAPACK). It waits for the calls
   before it. It reads and writes the device's memory by download and upload. `context` is copied. */
typedef void host_step(struct device *, void *context);
void program_host(struct program *, host_step *, const void *context, size_t size);

/* For op_* in ops.c and for plug-ins with their own operations: during program_backward, this step appends the
   reverse of the calls just recorded. `context` is copied (size bytes). */
typedef void backward_step(struct program *, const void *context);
void program_on_backward(struct program *, backward_step *, const void *context, size_t size);
/* Does a gradient flow into t? (parameters: yes; inputs: no; temporaries: if any of their sources) */
int program_wants_grad(const struct tensor *t);
void program_flows(struct program *, struct tensor *result, struct tensor *source);
/* The gradient of t as a destination; *add = 1 if something was written before (add to it). A view's
   gradient is the same view of its owner's. Parameters' gradients always add: the caller zeroes them. */
struct tensor *program_grad(struct program *, struct tensor *t, long *add);
/* The gradient of t, complete, as a source; NULL if none has reached t. Columns that only views of t could
   have reached, and did not, are zero. */
struct tensor *program_grad_of(struct program *, struct tensor *t);
/* Let y's gradient go on into x unchanged (y = x + ...), without a copy where nothing has been written to
   x's. To be called last in a backward step: afterwards y's gradient may not be read. */
void program_grad_pass(struct program *, struct tensor *y, struct tensor *x);

/* A part of the model begins, such as a layer. With sharded parameters (shards.h) each part gathers the parameters
   that it reads, forward and in the reverse. The end of its reverse sends the gradients that are then complete to
   their owners. */
void program_unit(struct program *);

/* Append the reverse of everything recorded: gradients of the sum of loss's elements. */
void program_backward(struct program *, struct tensor *loss);
/* Is t the start of the gradient, that is, is its gradient 1? */
int program_starts(const struct program *, const struct tensor *t);
void program_plan(struct program *); /* places all temporaries; the program is complete */
void program_run(struct program *);
/* Run the same program of several runs of one layout (run_arena.h), in the order of their arenas, on a device that
   computes runs itself. A call is made once, for all arenas from the first to the last; a host step is made for each
   run. */
void program_run_together(struct program *const *, int count);
/* Do two programs make the same calls with the same constants, and does every address in the second lie `shift` bytes
   beyond that in the first? NULL, or the name of an operation that differs. Contexts of host steps may differ. */
const char *program_difference(const struct program *, const struct program *, ptrdiff_t shift);
size_t program_bytes(const struct program *); /* of planned memory */
int program_calls(const struct program *);
int program_host_steps(const struct program *);
struct device *program_device(const struct program *);
/* Zeroed memory of the host that lives as long as the program. */
void *program_memory(struct program *, size_t count, size_t size);
/* The i-th tensor of the program (inputs, temporaries, gradients, views), NULL beyond the last; `first` and
   `last` are the calls between which its memory is its own. */
const struct tensor *program_tensor(const struct program *, int i);
#endif
