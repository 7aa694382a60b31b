/* play.h - the simulator for a page or another program: runs in memory, texts in and out
   Built natively, and as a module of WebAssembly that exports these functions. Texts go in through play_room;
   those that come out are UTF-8 and valid until the next call of the same function. Runs are small numbers above 0; 0
   and NULL are errors, which play_error() explains in the program's own words. One thread. */
#ifndef MAXLOGIT_PLAY_PLAY_H
#define MAXLOGIT_PLAY_PLAY_H

/* Allocate zeroed bytes for a text with its NUL, which the next call that reads a text takes. 0: return the current
   room. */
char *play_room(int bytes);
const char *play_error(void);
/* Warnings since the last call, one per line. */
const char *play_warnings(void);

/* Add a file to a module, which has no others. The first line of the room's bytes is its name (data.path), the rest
   its content. Returns 1. */
int play_file(int bytes);

/* The text in the room: key=value words, as on the command line, or a configuration file. */
int play_new(void);
int play_check(void); /* the same without keeping the run: 1 or 0 */
void play_free(int run);
int play_step(int run, int steps); /* updates done, at most `steps`; 0: at its end; -1: error */
int play_count(int run);           /* updates done */
int play_steps(int run);           /* in all */
const char *play_state(int run);   /* running, finished, diverged, blown-up */
int play_change(int run); /* the text: one key=value that resume accepts, or an interval of the record */

/* Recorded series, from 0. */
int play_series(int run);
const char *play_name(int run, int series);
int play_axis(int run,
              int series); /* of a row: 0 one number, 1 layers, 2 layers and heads, 3 tensors, 4 experts */
int play_width(int run, int series);
int play_rows(int run, int series);
/* [rows] and [rows, width]: valid until the next call of play_step, play_change or play_free. */
const double *play_row_steps(int run, int series);
const double *play_values(int run, int series);
const char *play_describe(int run, int series); /* JSON */
const char *play_events(int run);               /* JSON */

int play_layers(int run);
int play_heads(int run);
int play_context(int run);
const float *play_attention(int run, int layer, int head); /* [context, context], first validation sequence */
int play_spectrum_size(int run, int layer, int head);      /* 0: this attention has no such form */
const double *play_spectrum(int run, int layer, int head); /* singular values of w_q^T w_k, falling */

const char *play_command(int run);  /* the same run on the command line */
const char *play_settings(int run); /* its resolved configuration, as a file */
const char *play_csv(int run);      /* its series, for `maxlogit import` */
double play_bytes(int run);         /* memory of the run */

const char *play_options(void); /* JSON: sections, keys, presets */
const char *play_level(void);   /* of the kernels */
const char *play_doctor(void);  /* the bits that `maxlogit doctor` computes, and the expected ones */
const char *play_doctor_reference(void);
/* The bits of a run with the words in the room, computed like those of doctor (run/bits.h). */
const char *play_bits(void);
const char *play_version(void);
#endif
