/* clip.h - "clip where it is unstable" (kexue.fm/archives/11126): a statistic, and the weights that make it
   A new clip is one file: a hook that gives the tensor that grows to model_track_max, and an after_step that records
   the factors (operation clip_factor: limit / x where x > limit) and the weights that take them;
   stabilizers/max_output_clip.c is the pattern. */
#ifndef MAXLOGIT_TRAINING_CLIP_H
#define MAXLOGIT_TRAINING_CLIP_H
#include "model/stabilizer.h"

/* Record: multiply the rows of block i, and of its bias, by scale[i], scale [1,count]; with `momentum` also the
   optimizer's first moments of these rows. */
void clip_record(struct stabilizer_context *, struct program *, const struct logit_block *, int count,
                 struct tensor *scale, int momentum);
/* Record: calls from now on run in every `every`-th step only, and if the guard so far (returned) lets them. */
struct tensor *clip_every(struct stabilizer_context *, struct program *, long every);
#endif
