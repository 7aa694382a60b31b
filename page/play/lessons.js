/* lessons.js - eight lessons: a state of the page, five sentences, and a question that a slider answers */
"use strict"

const small = "model.width=32 model.context=32 train.val_every=50 record.spectra_every=20 train.steps=600"
const lessons = [
  {title: "Why logits grow", key: "train.lr", view: ["logits", "norms"],
    state: {arms: ["muon"], set: small + " train.lr=0.03 train.weight_decay=0"},
    text: ["A head scores each pair of tokens by the product of a query and a key, and a softmax turns the scores into weights.",
      "The largest score before the softmax is the max logit.",
      "Queries and keys are made by two matrices, W_q and W_k, and each update adds to both, so their product grows faster than either.",
      "On 480 heads of 60 runs the max logit followed the largest singular value of that product, times the gain of the norm before attention (R² 0.95, experiment 16).",
      "Nothing in the loss stops the growth: once the softmax has picked one token the gradient fades, but an update of Muon keeps its size."],
    question: "Move the learning rate: at which rates does no head pass 100 within 600 steps?",
    answer: "At 0.015 and below. The growth is a matter of the rate: at 0.03 a head passes 100 at step 430, at 0.01 the largest score is 43, at 0.003 it is 7. In experiment 20, on a copy task, the max logits of Muon grew in proportion to the step, those of Adam to its square root."},
  {title: "Adam and Muon", key: "train.lr", view: ["logits", "loss"],
    state: {arms: ["muon", "adam"], set: small + " train.lr=0.03 train.weight_decay=0"},
    text: ["Reports on large models say that logits explode under Muon more than under Adam.",
      "Here both optimizers train the same model at one learning rate, and both explode.",
      "The comparison decides the answer: at updates of equal spectral norm Muon's max logits were 12.1 times Adam's, at an equal root mean square 0.47 times (experiment 06, learning rate 0.03).",
      "With each optimizer at its own best rate, near 0.006, the ratio was 1.08 with an interval from 0.96 to 1.23.",
      "So a comparison at one rate means little: tune both first."],
    question: "Move the learning rate down to 0.006: which optimizer has the higher logits there, and do they explode?",
    answer: "At 0.006 the largest scores are near 13 (Muon) and 21 (Adam), and neither explodes. At the best rates nothing exploded over 10 000 steps either (experiment 15)."},
  {title: "QK-Clip and its tug of war", key: "qk_clip.tau", view: ["logits", "clips", "loss"],
    state: {arms: ["muon", "muonclip"], set: small + " train.lr=0.01 train.weight_decay=0.1 qk_clip.tau=10"},
    text: ["After a step in which a head's max logit exceeded the threshold tau, QK-Clip multiplies the head's W_q and W_k so that the logit would have been tau.",
      "The next updates push the logit up again, and the next clip takes it back.",
      "So a clipped head zigzags around tau: with tau = 30 a batch reached 1.36 times tau (experiment 08, learning rate 0.03).",
      "The clip acts on the weights after the step, so the step itself is that of plain Muon.",
      "A threshold far below what a head needs costs loss: 0.18 nat for tau = 3 and 0.27 for tau = 1, where logits would reach about 24 (experiment 08, each arm at its best learning rate)."],
    question: "Move tau down from 10: at which threshold does the loss of muonclip leave that of muon?",
    answer: "Between 10 and 3. At 10 the validation losses agree to 0.01 nat; at 3 the clip costs about 0.15 nat, at 1 nearly 0.3."},
  {title: "Per layer against per head", key: "qk_clip.tau", view: ["norms", "logits"],
    state: {arms: ["muonclip qk_clip.scope=head", "muonclip qk_clip.scope=layer"], set: "model.width=32 model.heads=8 model.context=32 train.steps=400 train.val_every=50 record.spectra_every=10 train.lr=0.03 train.weight_decay=0.1 qk_clip.tau=5"},
    text: ["A clip can use one factor for each head (orange, scope=head), or one factor for all heads of a layer (blue, scope=layer).",
      "With one factor per layer, one loud head shrinks all its neighbors too.",
      "The quiet ones lose a little with each clip of the loud one.",
      "At width 128 and tau = 10 on the built-in source, in 15 of 24 runs a head's W_q and W_k shrank to almost nothing; with one factor per head in none (experiment 02).",
      "Compare the lowest thin curves of the spectral norm: the lowest blue ones are heads that starve, and no orange one falls as far."],
    question: "Move tau: do the lowest blue curves come closer to the lowest orange ones if the threshold is high?",
    answer: "Yes. At 5 the smallest norm with one factor per layer is a tenth of that with one per head, at 10 it is half, and at 30 no head needs a clip: both arms are nearly the same run."},
  {title: "Caps and QK-Norm", key: "train.lr", view: ["logits", "entropy", "loss"],
    state: {arms: ["muon", "muon stabilizers=soft_cap soft_cap.cap=30", "muon stabilizers=qk_norm"], set: small + " train.lr=0.03 train.weight_decay=0"},
    text: ["A soft cap replaces a score s by cap · tanh(s / cap), so the softmax never sees more than the cap.",
      "The figure shows the scores before the cap: they keep growing (1.04 times plain Muon, experiment 04).",
      "QK-Norm divides each query and key by its size, so only their directions and learned gains can make a score.",
      "There the max logit ended at 0.25 times that of plain Muon (experiment 04, learning rate 0.03, weight decay 0.1).",
      "A cap bounds the symptom; a norm bounds the cause."],
    question: "Move the learning rate up to 0.06: which of the three arms still holds its logits?",
    answer: "QK-Norm, near 30: its scores are bounded by its gains. Plain Muon passes 4000 there, and the scores that enter the cap pass 1000."},
  {title: "Latent attention and partial QK-Norm", key: "train.weight_decay", view: ["logits", "loss"],
    state: {arms: ["mla_muon", "mla_muon stabilizers=qk_norm_partial", "mla_muonclip"], set: small.replace("600", "300") + " train.lr=0.03 train.weight_decay=0 qk_clip.tau=30"},
    text: ["Multi-head latent attention (MLA) stores one short latent per token and makes the keys of all heads from it.",
      "A full QK-Norm would need the keys of every head, which MLA does not store.",
      "Partial QK-Norm normalizes the queries and the shared rotary key only.",
      "It held the max logit at 0.18 times that without a norm (experiment 03, learning rate 0.03).",
      "Kimi K2 clips instead, each part of a head by its own factor: that is the third arm."],
    question: "Move the weight decay: does plain MLA need a cure if the decay is high?",
    answer: "Less and less: decay shrinks W_q and W_k at each step and so holds the logits too. The largest score is 79 without decay, 46 at 0.1 and 27 at 0.3."},
  {title: "Weight decay and gains", key: "train.weight_decay", view: ["logits", "norms", "loss"],
    state: {arms: ["muon", "muon train.decay_gains=1"], set: small + " train.lr=0.03 train.weight_decay=0"},
    text: ["Weight decay shrinks every matrix a little at each step; under Muon it bounds the spectral norm of W_q and W_k.",
      "Without decay the max logit grew like the 0.97th power of the step, with decay 0.1 like the 0.11th (Muon on a copy task, experiment 20).",
      "The gains of the norm before attention multiply every query and key, and usually are not decayed.",
      "The second arm decays them too.",
      "More decay is not free: decay 0.3 instead of 0.1 cost 0.09 nat on a text; on the built-in source, which this page uses, it cost 0.040 nat with an interval from -0.003 to 0.120, which is inconclusive (experiment 09)."],
    question: "Move the weight decay: what is the smallest value at which no head passes 100, and what does it cost?",
    answer: "0.05, or 0.02 if gains decay too. At 0.1 the largest score is 53 and the loss 0.03 nat higher than without decay; at 0.3 it is 28, but the loss is 0.17 nat higher; at 1 attention hardly learns."},
  {title: "What singular-value entropy shows", key: "train.lr", view: ["svd", "spectrum", "attention"],
    state: {arms: ["muon", "adam"], set: small + " train.lr=0.03 train.weight_decay=0"},
    text: ["The singular values of a head's W_q W_kᵀ say how strongly it reacts to each direction.",
      "Their entropy is 1 if all directions are equally strong, and near 0 if one direction rules.",
      "An exploding head puts its growth into few directions: the entropy falls while the largest singular value rises.",
      "The directions matter more than the size: with random singular vectors in Muon's updates the max logits reached 0.0016 times those of Muon (experiment 14).",
      "In the attention matrix such a head looks at one token per query."],
    question: "Move the learning rate down to 0.003: how far does the entropy of the smallest head fall now?",
    answer: "Hardly: it ends near 0.8 for both. At 0.03 it ends at 0.33 for Muon and 0.24 for Adam."},
].map(({view, state, ...lesson}) => ({...lesson, state: {...state, view}}))

let lessonSlide = null
/* Shows the lesson of the state above the figures. */
function showLesson() {
  const n = page.state.lesson, lesson = lessons[n - 1], box = byId("lesson")
  box.hidden = !lesson
  slides = slides.filter(s => s !== lessonSlide)
  lessonSlide = null
  byId("intro").hidden = !!lesson
  if (!lesson) return
  const spec = sliders.find(s => s[1] === lesson.key), turn = element("p", {className: "turn"})
  slides.push(lessonSlide = slide(spec))
  if (n > 1) turn.append(element("a", {href: "#lesson=" + (n - 1), textContent: "← " + lessons[n - 2].title}))
  if (n < lessons.length) turn.append(element("a", {href: "#lesson=" + (n + 1), textContent: lessons[n].title + " →"}))
  box.replaceChildren(element("h2", {textContent: n + ". " + lesson.title}), element("p", {textContent: lesson.text.join(" ")}),
    element("p", {}, element("b", {textContent: lesson.question})), lessonSlide.root, element("p", {id: "answer"}),
    element("p", {className: "soft", textContent: "Experiments are those of the maxlogit repository, in its folder experiments."}), turn)
  byId("answer").setAttribute("role", "status")
}
/* The answer comes when the slider was moved and the runs have ended. */
function drawAnswer() {
  const lesson = lessons[page.state.lesson - 1], done = page.arms.every(a => a.runs.every(r => r.done))
  if (lesson && byId("answer")) byId("answer").textContent = page.moved === lesson.key ? done ? lesson.answer : "The answer comes when the runs have ended ..." : ""
}
byId("lessons").append(...lessons.map((l, i) => element("li", {}, element("a", {href: "#lesson=" + (i + 1), textContent: l.title}))))
