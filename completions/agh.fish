# Tab completion of agh for fish:  agh completion fish --install

function __agh_complete
    set -l words (commandline -opc)
    while string match -qr '^\w+=' -- $words[1] # variables before the command
        set -e words[1]
    end
    set -l current (commandline -ct)
    set -l program (string replace -r '^~/' $HOME/ -- $words[1])
    type -q -- $program; or set program agh
    type -q -- $program; or return
    for line in ($program __complete $words[2..] "$current" 2>/dev/null)
        switch $line
            case \tdir
                __fish_complete_directories "$current"
            case \t'*'
                __fish_complete_path "$current"
            case '*'
                echo $line
        end
    end
end

complete -c agh -f -k -a '(__agh_complete)'
