#!/bin/sh
# One session plans, another implements, a third reviews and can only read.
#
#   plan-implement-review.sh NAME RUNNER DIRECTORY TASK
#
# Every step has a key that is made of NAME. Killed at any line, by anything, the script can be run again with the same
# arguments: what was done is not done again, what goes on is waited for, and what was said is said once more.
# Approvals are answered by policy; a step that asks something else ends the script with status 3 and tells how to answer,
# and then it is run again.
set -eu
name=$1 runner=$2 dir=$3 task=$4

# session ROLE FLAG...: the id of the session of a role, which is started once
session() {
	role=$1
	shift
	baton create -o id --key "$name.$role" --title "$name: $role" -r "$runner" -C "$dir" "$@"
}

# ask ROLE SESSION PROMPT: what the agent says in the end
ask() { baton send --wait --key "$name.$1.prompt" "$2" "$3"; }

planner=$(session planner --sandbox read-only --auto-answer deny-all)
plan=$(ask planner "$planner" "Plan this, and change nothing: $task")

implementer=$(session implementer --sandbox workspace-write --auto-answer approve-edits)
work=$(ask implementer "$implementer" "Implement this plan, and say what you did. $plan")

reviewer=$(session reviewer --sandbox read-only --auto-answer deny-all)
ask reviewer "$reviewer" "Review the work in this directory. The plan was: $plan. The implementer says: $work"

for id in "$planner" "$implementer" "$reviewer"; do
	baton close --key "$name.close.$id" "$id" >&2
done
