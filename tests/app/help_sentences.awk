# help_sentences.awk - COMMAND: sentence, of a command's --help what stands before and behind its options
function flush(  n, i, part) {
  gsub(/ +/, " ", text); sub(/^ /, "", text); sub(/ $/, "", text)
  while (match(text, /[.:;] +[A-Z`]/)) { print command ": " substr(text, 1, RSTART); text = substr(text, RSTART + 2) }
  if (text != "") print command ": " text
  text = ""
}
/^Usage:/ { next }
/^ / || /^maxlogit / { flush(); next }
/^$/ { flush(); next }
{ text = text " " $0 }
END { flush() }
