#!/usr/bin/env bash
# A quarter of an hour on a GPU: trains a large teacher, translates with it, and trains a student of the
# recipe's own shape on references and on the teacher's translations (Kim and Rush 2016, section 3.2).
#
#   bash tests/benchmarks/quarter.sh RECIPE SOURCE TARGET DATA OUT
#
# SOURCE and TARGET are the endings of the files of both languages. DATA has
#   references/FOLDER   parallel files, as for the training, with development sets
#   others/FOLDER       parallel files for the teacher alone, such as pairs of a third language whose sources
#                       begin with a mark
#   texts/FOLDER        sentences of the source language alone, with NAME.source
#   links               the links of all pairs in references, as for --alignments
#   weights             a line with the name of a corpus in references, a line with its weight, and so on
# OUT/minutes has three numbers, the minutes of each training: 4 3.3 0.7. A step reads its number when it begins.
# TEACHER and SMALL add settings to the teacher, and to the student and its last run. The student's last run
# learns the links and reads references alone. Both models of the student are scored on the development sets.
# The same command goes on where it was stopped.
set -euo pipefail

recipe=$1 source=$2 target=$3 data=$4 out=$5
mapfile -t weights < "$data/weights"
taught=$out/taught/all
python=${PYTHON:-python3}

train() {  # a name and the place of its minutes, then settings
    local name=$1 minutes
    minutes=$(cut -d' ' -f"$2" "$out/minutes")
    shift 2
    [[ -f $out/$name/evaluation.json ]] && return
    [[ -d $out/$name ]] && set -- "$@" --resume
    # Only the minutes end a run: its learning rate follows the time.
    "$python" -m training train "$recipe" --output "$out/$name" --minutes "$minutes" --config.max-steps 1000000 \
        --config.validate-every 1000000 --config.save-every 2000 "$@" --config.weights "${weights[@]}"
    echo "$name after $SECONDS s"
}

teach() {  # the teacher's translations of all sources, with the name of the corpus of each
    [[ -f $taught.$target ]] && return
    mkdir -p "$out/taught"
    rm -f "$taught".*
    for file in "$data"/references/*/*."$source" "$data"/texts/*/*."$source"; do
        [[ $(basename "$file") == dev.* ]] && continue
        cat "$file" >> "$taught.$source"
        if [[ -f ${file%.*}.source ]]; then
            cat "${file%.*}.source"
        else
            sed "s|.*|taught $(basename "$(dirname "$file")")|" "$file"
        fi >> "$taught.source"
    done
    split -n l/6 -d "$taught.$source" "$taught.part"
    for part in "$taught".part??; do
        "$python" -m model translate --model "$out/teacher/best" < "$part" > "$part.$target" 2> "$part.refused" &
    done
    wait
    cat "$taught".part??."$target" > "$taught.new"
    mv "$taught.new" "$taught.$target"
    rm "$taught".part*
    echo "translated after $SECONDS s"
}

train teacher 1 --data "$data"/references/* "$data"/others/* --config.vocabulary 16000 \
    --config.model.d-model 512 --config.model.d-ff 2048 --config.model.dropout 0.1 \
    --config.model.n-encoder-layers 6 --config.model.n-decoder-layers 6 --config.concatenate 0.01 \
    --config.tokens-per-batch 32768 --config.peak-learning-rate 1.5e-3 --config.muon-learning-rate 2e-3 ${TEACHER:-}
teach
train student 2 --data "$data"/references/* "$out/taught" --config.vocabulary 10000 --config.concatenate 0.02 \
    --config.model.dropout 0.05 --config.tokens-per-batch 32768 ${SMALL:-}
train tuned 3 --data "$data"/references/* --from "$out/student/best" --alignments "$data/links" \
    --config.vocabulary 10000 --config.model.dropout 0.05 --config.tokens-per-batch 16384 --config.warmup-steps 60 \
    --config.peak-learning-rate 1e-3 --config.muon-learning-rate 2e-3 ${SMALL:-}
for name in student tuned; do
    "$python" -m training publish "$out/$name/best" "$out/$name-8bit"
    for dev in "$data"/references/*/dev."$source"; do
        echo "$name, $dev"
        "$python" -m training evaluate "$out/$name-8bit" --source "$dev" --reference "${dev%.*}.$target" --beam 4
    done
done
echo "all after $SECONDS s"
