# Tab completion of agh for bash. In ~/.bashrc:  eval "$(agh completion bash)"

_agh() {
    local IFS=$' \t\n' line=${COMP_LINE:0:COMP_POINT} words=() glued='' word i
    # Bash splits at the characters of COMP_WORDBREAKS (= : @); what no space divides is one word.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        line=${line#"${line%%[![:space:]]*}"}
        word=${COMP_WORDS[i]}
        ((i == COMP_CWORD)) && word=$line
        line=${line#*"$word"}
        if [[ $glued ]]; then words[-1]+=$word; else words+=("$word"); fi
        [[ $line && $line != [[:space:]]* ]] && glued=1 || glued=''
    done
    words=("${words[@]:1}")
    local current=${words[-1]} program=${1/#\~\//$HOME/}
    type -P -- "$program" >/dev/null || program=agh

    local quoted='' trim=${current%"$2"} values=() texts=() width=0 files=''
    [[ $current == [\"\']* ]] && quoted=1 trim=''
    while IFS= read -r line; do
        word=${line%%$'\t'*}
        if [[ $word ]]; then
            values+=("${word#"$trim"}") texts+=("${line#*$'\t'}")
            ((${#word} > width)) && width=${#word}
        else
            files=${line#*$'\t'}
        fi
    done < <("$program" __complete "${words[@]//[\\\"\']/}" 2>/dev/null)

    COMPREPLY=()
    if [[ $files ]]; then
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -"${files:0:1}" -- "$2")
        quoted=1
    fi
    for i in "${!values[@]}"; do
        word=${values[i]}
        if [[ $COMP_TYPE == 63 && ${#values[@]} -gt 1 && ${texts[i]} ]]; then
            printf -v word '%-*s  (%s)' "$width" "$word" "${texts[i]}"
            word=${word:0:${COLUMNS:-80}-1}
        elif [[ ! $quoted ]]; then
            printf -v word %q "$word"
        fi
        COMPREPLY+=("$word")
    done
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    return 0
}
complete -o nosort -F _agh agh 2>/dev/null || complete -F _agh agh
