# shellcheck shell=sh
# The far side of a wire: start the agent in its place, and end everything it started when the wire ends.
#
# far.py says why this is needed. It sends this file unchanged, after a header that sets
#   agh_mark            the NAME=VALUE that every process of this launch has in its environment
#   agh_session_mark    what the marks of all launches of this session begin with; empty for a probe
#   agh_directory       the workspace in this place
#   agh_package         the npm package to run if the agent's program is not installed; may be empty
#   agh_pause           seconds between two looks at the wire
#   agh_guard           not empty if whoever holds the wire may kill this script with it
#   export_environment  a function that exports the variables the agent needs
#   on_disconnect       a function that releases the place after the wire has ended
#   "$@"                the agent's command
#
# Use only POSIX utilities, as busybox has them. A busybox that prefers its own applets runs them without an
# exec, and /proc then shows no mark; start them through `env` where the mark matters.
# shellcheck disable=SC2154  # the header sets these variables

# Print a line for explain_end() in far.py. The newline first: the agent's last line may not have one.
send_notice() { printf '\nagh-place: %s\n' "$1" >&2; }

# Print the pid of every process that has a variable beginning with $1 in its environment.
#
# busybox's grep stops at a NUL byte, so environments are turned into lines first. `head` names each file in a
# header line, so three processes read all of /proc. A value can contain a line that looks like such a header,
# so every process is read once more before it is reported.
list_marked() (
  unset AGH_PLACE_RUN
  LC_ALL=C
  export LC_ALL
  exec 2>/dev/null
  newline='
'
  head -n 9999999 /proc/[0-9]*/environ | tr '\0' '\n' |
    sed -n -e '/^==> .proc.[0-9]*.environ <==$/{' -e 's/[^0-9]//g' -e h -e '}' -e "/^$1/{" -e g -e p -e '}' |
    while read -r pid; do
      case $newline$(tr '\0\n' '\n ' <"/proc/$pid/environ") in
        *"$newline$1"*) echo "$pid" ;;
      esac
    done
)

# Send $1, TERM or KILL, to every process marked $2. After TERM, succeed only if there was one.
#
# All are stopped before any is killed: a process that sees another one die might still act on it. KILL repeats
# until three looks in a row see none: a kill takes effect late, a process may have forked in between, and one in
# the middle of an exec shows no environment for a moment.
kill_marked() {
  empty_looks=0
  for attempt in 1 2 3 4 5 6 7 8 9 10 11; do
    marked_pids=$(list_marked "$2")
    # shellcheck disable=SC2086  # each pid is a word
    if [ -z "$marked_pids" ]; then
      empty_looks=$((empty_looks + 1))
      if [ "$1" = TERM ] || [ "$empty_looks" = 3 ]; then break; fi
    elif [ "$1" = TERM ]; then
      kill -TERM $marked_pids 2>/dev/null
      return 0
    else
      empty_looks=0
      kill -STOP $marked_pids 2>/dev/null
      kill -KILL $marked_pids 2>/dev/null
      [ "$attempt" -lt 6 ] || (unset AGH_PLACE_RUN; sleep 1)
    fi
  done
  [ "$1" = KILL ]
}

can_read_marks() {
  [ -r /proc/$$/environ ] && command -v head && command -v tr && command -v sed
} >/dev/null

# Kill $1, the process that reads the wire, if four looks in a row see no byte arrive: not even a heartbeat.
#
# The reader's backlog is what it has read and not yet handed to the agent. While that is above its lowest the
# agent is not reading, so the reader cannot either, and silence means nothing. The counters include what the
# reader read to start itself, so only differences count.
watch_wire() {
  previous_read='' lowest_backlog='' silent_looks=0
  while env sleep "$agh_pause"; do
    bytes_read='' bytes_written=''
    while read -r counter value; do
      case $counter in
        rchar:) bytes_read=$value ;;
        wchar:) bytes_written=$value ;;
      esac
    done <"/proc/$1/io" || return
    if [ -z "$bytes_read" ] || [ -z "$bytes_written" ]; then return; fi
    backlog=$((bytes_read - bytes_written))
    if [ -z "$lowest_backlog" ] || [ "$backlog" -lt "$lowest_backlog" ]; then lowest_backlog=$backlog; fi
    if [ "$bytes_read" = "$previous_read" ] && [ "$backlog" -le "$lowest_backlog" ]; then
      silent_looks=$((silent_looks + 1))
    else
      silent_looks=0
    fi
    previous_read=$bytes_read
    [ "$silent_looks" -lt 4 ] || kill "$1"
  done
}

# End what an earlier launch of this session left here: a session must never have two agents.
[ -z "$agh_session_mark" ] || kill_marked KILL "$agh_session_mark"

export_environment
cd -- "$agh_directory" 2>/dev/null || { send_notice no-directory; exit 126; }
if [ "$agh_package" ] && ! command -v "$1" >/dev/null 2>&1 && command -v npx >/dev/null 2>&1; then
  shift
  # Without a prefix npx would run a program from the node_modules of the directory, and read its .npmrc.
  set -- npx --prefix "${HOME:-/}" -y "$agh_package" "$@"
fi
command -v "$1" >/dev/null 2>&1 || { send_notice no-program; exit 127; }

# Run the agent, "$@", with the wire as its stdin; end what it started when it exits or the wire ends.
#
# The wire is copied to the agent's stdin by a process of its own, so its end is seen even if the agent is busy.
run_agent() {
  {
    env dd bs=65536 <&3 6<&- &
    wire_pid=$!
    exec >/dev/null
    watch_wire "$wire_pid" 3<&- 6<&- &
    wait "$wire_pid"
    # 0: the wire has ended; 143: watch_wire gave it up. With any other status the agent was gone first.
    case $? in
      0 | 143)
        env sleep 2 && kill_marked TERM "$agh_mark" && env sleep 1
        kill_marked KILL "$agh_mark"
        on_disconnect
        ;;
    esac
    kill_marked KILL "$agh_mark"
    can_read_marks || kill -KILL 0
  } 3<&0 2>/dev/null | {
    "$@" 6<&-
    code=$?
    kill_marked KILL "$agh_mark"
    send_notice "ended $code"
    # Where marks can be read, the wire's reader is dead by now. Elsewhere it would stay until a heartbeat.
    can_read_marks || kill -KILL 0
    exit $code
  }
}

# Start a process that kills everything of this launch if this script is killed; it first prints its pid.
#
# It is out of reach for those who kill a process with all its descendants: it has a session of its own, and its
# parent exits. It writes into a pipe that nobody reads, so it sleeps until the last reader is gone.
# shellcheck disable=SC2016  # the guard expands these
start_guard() {
  unset AGH_PLACE_RUN
  setsid sh -c '
    trap "" PIPE
    echo $$
    while printf %4096s ""; do :; done
    empty_looks=0
    while [ "$empty_looks" -lt 3 ]; do
      empty_looks=$((empty_looks + 1))
      for process in /proc/[0-9]*; do
        case "
$(tr "\0\n" "\n " <"$process/environ")
" in
          *"
$0
"*) kill -KILL "${process#/proc/}" && empty_looks=0 ;;
        esac
      done
    done' "$agh_mark" </dev/null 2>/dev/null 7<&- &
}

if [ "$agh_guard" ] && command -v setsid >/dev/null 2>&1; then
  exec 7<&0
  start_guard | {
    exec 6<&0 0<&7 7<&-
    read -r guard_pid <&6
    run_agent "$@"
    code=$?
    kill -KILL "$guard_pid"
    exit $code
  }
else
  run_agent "$@"
fi
