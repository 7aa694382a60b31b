#include "training/data.h"

static const char *const vocab_names[] = {"char", "byte", "words", "bpe", NULL};
static const char *const packing_names[] = {"none", "documents", NULL};

const struct option_row data_rows[] = {
  TEXT_ROW(struct data_options, path, "", "text files for data=bytes, joined by +",
           OPTION_FREE | OPTION_LIST),
  CHOICE_ROW(struct data_options, vocab, "char", vocab_names,
             "tokens of data=bytes: the bytes that occur (char), all 256 (byte), words with the space before "
             "them, and other bytes (words), or parts of these, by byte-pair encoding (bpe)",
             0),
  INT_ROW(struct data_options, symbols, "65536", 2, 65536, "symbols",
          "most symbols, with data.vocab=words (rarer words share the last) or bpe (from 257)", OPTION_LATER),
  REAL_ROW(struct data_options, val_fraction, "0.1", 0.001, 0.5, "1",
           "share of the text, at its end, used for validation", 0),
  CHOICE_ROW(struct data_options, packing, "none", packing_names,
             "documents: several documents per sequence; attention stays within a document", 0),
  TEXT_ROW(struct data_options, separator, "\\n\\n",
           "text that ends a document (\\n, \\t, \\\\ as in C), for packing=documents", 0),
  REAL_ROW(struct data_options, label_noise, "0", 0, 1, "1",
           "share of training targets that another random symbol replaces; inputs and validation stay clean",
           OPTION_LATER),
  END_ROW};

struct draw data_draw(enum data_split split, uint64_t seed, uint64_t index)
{
  static const uint32_t stream[] = {
    [DATA_TRAIN] = STREAM_TRAIN_DATA, [DATA_VAL] = STREAM_VAL_DATA, [DATA_PROBE] = STREAM_PROBE_DATA};
  return (struct draw){.seed = seed, .stream = stream[split], .step = index};
}
