/* topics.c - the texts of topics.h */
#include "app/topics.h"
#include <stddef.h>

const struct topic topics[] = {
  {"metrics", "one number per run: SERIES:WINDOW:REDUCTION",
   "Metrics are arguments of show --of, compare --of, tune --by, --sort, --where and\n"
   "plot --x, --y.\n"
   "\n"
   "  SERIES      a recorded series, such as attn/max_logit or val_loss. SERIES@GLOB\n"
   "              takes only matching heads (l0h0), layers (l0) or tensors.\n"
   "  WINDOW      last (default): the last row; lastN: N rows, that of step 0 not\n"
   "              among them; lastP%: of the steps; all; A-B: those steps\n"
   "  REDUCTION   mean, max, min, median: over all values of the window; over=X: the\n"
   "              share above X; slope: of log largest over log step; above=X,\n"
   "              below=X: the first such step, censored if there is none\n"
   "\n"
   "Short names: loss, val, peak, last, clips, spikes (maxlogit show --help).\n",
   "maxlogit show runs --of val,attn/max_logit@l1h*:last5%:mean\n"
   "maxlogit show runs --where 'val < 9' --sort -peak",
   "doc/recipes.md"},
  {"events", "clips, spikes and non-finite values, with step, layer and head",
   "A run file lists events in /events. Kinds:\n"
   "\n"
   "  clip          QK-Clip scaled a head; the value is gamma\n"
   "  spike         the loss jumped (train.spike)\n"
   "  nonfinite     a loss, gradient norm, logit or other value is not finite\n"
   "  nonconverged  an iteration of an update did not converge\n"
   "  checkpoint    the state was saved\n"
   "  resume        the run went on; rerun: it was repeated\n"
   "  context       the run went on with another context length\n"
   "\n"
   "Dead heads are computed from the series: show --dead lists them, and\n"
   "plot --figure=heads marks them. Clips lower a max logit: a clipped head is\n"
   "judged by its norms alone.\n",
   "maxlogit show --events runs/a.h5\n"
   "maxlogit show --dead runs",
   "doc/run-file.md"},
  {"divergence", "runs that diverged or blew up, and their causes",
   "A run diverged if its loss, its gradient or a logit is not finite. It stops\n"
   "there (train.on_nonfinite).\n"
   "\n"
   "A run blew up if it reached its end with finite losses, but the mean loss of\n"
   "the last tenth of its steps is more than a tenth above the loss of step 0, or\n"
   "above ln V (a uniform guess over V symbols) after the loss had been below it.\n"
   "\n"
   "Means, intervals and figures leave both out, and count them.\n",
   "maxlogit show --why runs/a.h5\n"
   "maxlogit show runs --where state!=diverged,blown-up",
   "doc/concepts.md"},
  {"explosion", "the growth of max logits, its causes and cures",
   "A logit of attention is q.k times the softmax scale. Its maximum over all pairs\n"
   "of a head, S, is the max logit. An explosion is the steady growth of S: the\n"
   "softmax becomes one-hot and heads stop learning, while the loss may stay finite.\n"
   "Kimi K2 saw S above 1000 under Muon (arXiv 2507.20534).\n"
   "\n"
   "In these stacks S grows with the learning rate, and without weight decay\n"
   "(experiments/README.md). Cures are stabilizers (maxlogit list stabilizer):\n"
   "QK-Clip scales heads above tau, QK-Norm bounds S, a soft cap only hides its\n"
   "growth.\n",
   "maxlogit run preset=muon train.lr=0.1 record.path=hot.h5\n"
   "maxlogit show --why hot.h5",
   "doc/concepts.md"},
  {"groups", "runs that differ only in their seed, or have equal values of --by",
   "Without --by, a group has the runs that differ only in train.seed. --by=KEYS\n"
   "groups runs by the values of these keys instead. A group is named after its\n"
   "kind (preset, or optimizer and stabilizers) and the keys in which groups differ.\n"
   "\n"
   "Two groups are compared over pairs of equal seed, which start from the same\n"
   "weights and train on the same batches (compare, show --baseline).\n",
   "maxlogit show --group runs\n"
   "maxlogit show runs --by optimizer --of val,peak",
   "doc/concepts.md"},
  {"clusters", "one run on many ranks, one sweep on many machines",
   "Parts of a sweep: sweep --shard=I/N in each job of an array. Several jobs may\n"
   "also share one sweep.dir; each run is then computed by one of them. A job that\n"
   "was killed is continued by the same command.\n"
   "\n"
   "One run on several ranks: mpirun or srun, with train.micro_batches a multiple of\n"
   "the number of ranks, a power of two. The bits do not depend on that number.\n",
   "maxlogit sweep rates.conf --shard=1/2 --list\n"
   "maxlogit run --dry-run train.micro_batches=4",
   "doc/cluster.md"},
  {NULL, NULL, NULL, NULL, NULL}};
