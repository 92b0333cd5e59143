# shellcheck shell=bash
# Sourced by scripts that start others. Each child gets a process group of its own and ends with the
# script, however that ends; nothing else is ever signalled.
#   trap end_groups EXIT

group_ids=()
# Even a script that is killed takes its children along.
with_parent=()
if setpriv --pdeathsig TERM true 2>/dev/null; then
  with_parent=(setpriv --pdeathsig TERM)
fi

# start_group LOG COMMAND…: runs a program or a function in the background; its process (and group)
# id is in $started. LOG "-" lets it write where we write.
start_group() {
  local log=$1 command=("${with_parent[@]}")
  shift
  ! declare -F "$1" >/dev/null || command=()
  command+=("$@")
  set -m
  if [[ $log == - ]]; then
    "${command[@]}" </dev/null &
  else
    "${command[@]}" </dev/null >"$log" 2>&1 &
  fi
  started=$!
  set +m
  group_ids+=("$started")
}

# end_group ID: asks it to end, makes it end after 20 s.
end_group() {
  local id=$1 kept=() other i
  for other in "${group_ids[@]}"; do
    [[ $other == "$id" ]] || kept+=("$other")
  done
  group_ids=("${kept[@]}")
  kill -TERM -- "-$id" 2>/dev/null || true
  for ((i = 0; i < 200; i++)); do
    kill -0 -- "-$id" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL -- "-$id" 2>/dev/null || true
  wait "$id" 2>/dev/null || true
}

end_groups() {
  local i
  trap '' INT TERM HUP
  for ((i = ${#group_ids[@]} - 1; i >= 0; i--)); do
    end_group "${group_ids[i]}"
  done
}

# finish_group ID: waits for it; its exit status.
finish_group() {
  local id=$1 rc=0
  wait "$id" 2>/dev/null || rc=$?
  end_group "$id" # what it may have left behind
  return "$rc"
}

# run_group COMMAND…: in the foreground as far as the reader sees; interruptible.
run_group() {
  start_group - "$@"
  finish_group "$started"
}

exit_on_signals() {
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

# clock_beat SINCE LABEL BEAT: shows that something still goes on; every 0.2 s on a terminal, once a
# minute in a log.
clock_beat() {
  if [[ -t 1 ]]; then
    printf '\r    %s %d s ' "$2" $((SECONDS - $1))
  elif (($3 > 0 && $3 % 300 == 0)); then
    printf '    %s %d s …\n' "$2" $((SECONDS - $1))
  fi
}

clock_end() {
  [[ ! -t 1 ]] || printf '\r\033[K'
}

# watch_group ID LABEL: waits for it with a clock; its exit status.
watch_group() {
  local id=$1 label=$2 since=$SECONDS beat=0
  while kill -0 "$id" 2>/dev/null; do
    clock_beat "$since" "$label" "$beat"
    beat=$((beat + 1))
    sleep 0.2
  done
  clock_end
  finish_group "$id"
}

# start_control_plane DIR LOG: returns once DIR/kubeconfig works.
start_control_plane() {
  local dir=$1 log=$2 id i
  start_group "$log" "$GPUQUOTA_ROOT/hack/controlplane.sh" up --dir "$dir"
  id=$started
  for ((i = 0; i < 1800; i++)); do
    [[ ! -e $dir/ready ]] || return 0
    kill -0 "$id" 2>/dev/null || break
    sleep 0.1
  done
  tail -n 40 "$log" >&2
  return 1
}

# free_port: a port of loopback that nobody listens on, below the range of outgoing connections.
free_port() {
  local port i
  for ((i = 0; i < 200; i++)); do
    port=$((20000 + RANDOM % 12000))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      printf '%s' "$port"
      return
    fi
  done
  return 1
}
