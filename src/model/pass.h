/* pass.h - passes over the model: inputs, intermediate tensors, sums over a batch, and the recorded programs */
#ifndef MAXLOGIT_MODEL_PASS_H
#define MAXLOGIT_MODEL_PASS_H
#include "model/decode.h"
#include "model/options.h"
#include "model/zigzag.h"
#include "numerics/exchange.h"

struct model;
/* The keys that each row of a sequence attends to, int [N]. start: the first key of its document. end: NULL if every
   row attends up to itself. window: the first key in layers with a window; NULL without such layers */
struct key_ranges {
  struct tensor *start, *end, *window;
};

struct layer_inputs {                  /* inputs of one program, shared by its layers */
  struct tensor *position;             /* int [N]: position for RoPE */
  struct tensor *start, *end, *window; /* see struct key_ranges */
  /* One for each rank if the context is cut over ranks, else NULL: the ranges within the keys of the i-th rank before
     this one; [0] is as above. */
  const struct key_ranges *stage;
  struct tensor *rope_table; /* [positions, dim] */
  long batch, context;
  double share;              /* of a batch in this program: 1 over micro-batches times ranks of the context */
  struct decoding *decoding; /* NULL: whole sequences */
};

/* Points of a program at which observers can take tensors, and the members of `flow` that are set there. */
enum point {
  POINT_STREAM, /* x [N,D]: the residual stream behind a block */
  POINT_SCORES, /* of a layer's attention, behind it: the rest of struct flow */
  POINT_ROUTES, /* of a layer's router: x [N,E], its logits */
  POINT_LOGITS, /* x [N,V], layer -1; not called where logits are never whole (struct model_program) */
  POINT_BEFORE_UPDATE /* layer -1: the host, between a step's pass and all that changes weights; no program, no flow */
};
struct flow {
  struct tensor *x;
  struct tensor *q, *k, *v;           /* [N,H*Dq], [N,G*Dq], [N,G*Dv]: the inputs of the products */
  struct tensor *position, *document; /* int [N]: in the sequence; the first of its document */
  struct tensor *start, *end;         /* int [N]: the keys of a row, see attention_forward; end may be NULL */
  struct tensor *stats;               /* [H,4] of this program */
  const struct attention_spec *spec;
  int
    stage; /* where the context is cut over ranks: queries meet the keys, and have the statistics, of the i-th before */
  double share; /* at every point: see struct layer_inputs */
};
/* Called while a program is recorded; it may add calls to the program. */
struct tap {
  void (*tap)(struct tap *, struct program *, enum point, int layer, const struct flow *);
};

/* The sums of passes over batches, of all micro-batches together: the run reads them in the report. */
struct tally {
  struct tensor *loss;  /* [1,2]: cross-entropy | z term */
  struct tensor *stats; /* [L*H,4]: see attention_forward; maxima (NaN if one is), entropy averaged */
  struct tensor
    *tracked_max; /* [S*L,1]: largest |x| of the tensors given to model_track_max, by stabilizer and layer */
  /* Where there are routers, else NULL. [L,E+4]: choices of each expert | sum over tokens of the entropy of
     scores | number of tokens with a choice that the bias changed | loss of balance | largest |logit|; and the biases
     [L,E] of the choices */
  struct tensor *routes, *biases;
  struct tensor *ahead; /* [K,2]: of every module as `loss`; NULL where there are none */
  struct tap *tap_hook; /* of the programs that are recorded into it; may be NULL */
};

/* Call the observers' taps at a point of the program that is being recorded. */
void model_tap(struct model *, struct program *, enum point, int layer, const struct flow *);

/* One recorded program over this model: training (with backward) or evaluation. */
struct model_program {
  struct program *program;
  long batch, context; /* context: rows of this rank in each sequence; `cut` has their places */
  struct zigzag cut;
  /* inputs, [N,1] each, N = batch*context; at first one whole document a row: position counts within the
     row, ranges those of a document from 0 on, weight 1/N */
  struct tensor *tokens, *targets, *weight, *position;
  struct tensor *start, *end, *window; /* see struct layer_inputs; end and window NULL where it is without */
  struct key_ranges *stage;            /* likewise */
  struct tensor *loss;                 /* [1,2] cross-entropy | z term */
  struct tensor *token_loss;           /* [N,1]; NULL with backward */
  struct tensor *logits;               /* [N,V]; NULL with backward, or where they are never whole */
  /* Of every module, [modules]; none in a decoder. Its tokens are the targets of the one before it. At first its
     targets and weights are 0. */
  struct ahead {
    struct tensor *targets, *weight; /* inputs [N,1]: the token k + 1 further on */
    struct tensor *loss, *logits;    /* logits: readable after a run only without backward */
  } * ahead;
  struct tensor **stats; /* [layers] of [H,4]: see attention_forward; rows of all_stats */
  struct tensor *all_stats;
  struct tensor *tracked_max; /* [stabilizers*layers,1], by model_track_max; 0 where nothing is watched */
  struct tensor *routes;      /* [L,E+4]: see struct tally; NULL where there are no routers */
  struct tensor *slot;        /* of a decoder: [N,1]; otherwise NULL */
  long cached;                /* of a decoder: numbers kept a position, all layers together */
};
/* context may exceed options.context (evaluation at longer lengths); where the device has ranks along it, each has its
   part, a multiple of 2 rows. Its sums go into `into` (may be
   NULL), of which it is one part in `parts`: micro-batches of a batch. */
void model_program_init(struct model *, struct model_program *, long batch, long context, int backward,
                        const struct tally *into, long parts);
/* The same model for `block` positions of each of `batch` sequences, row by row; inputs are [batch*block,1]. Run it for
   slots from 0 up to length - 1: keys and values of the slots before are those of the runs before. */
int model_decoder_init(struct model *, struct model_program *, long batch, long block, long length,
                       enum decode_form, struct error *);
void model_program_free(struct model_program *);
/* RoPE at a position turns pair i < pairs by position / rope_scale * base^(-i / pairs) (RoFormer, arXiv 2104.09864
   eq. 15). */
void model_rope_turn(const struct model_options *, long position, long pair, long pairs, double *cosine,
                     double *sine);
/* The keys of the `stage`-th rank before this one, 0 to cut.ranks - 1, that the rows of the program attend to: as
   inputs of the program; and that part of a range of the whole sequence. */
struct key_ranges model_stage(const struct model_program *, int stage);
struct row_range model_stage_range(const struct model_program *, int stage, struct row_range);
#endif
