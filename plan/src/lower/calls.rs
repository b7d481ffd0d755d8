//! Turns a rank's units into calls.

use super::events::Waits;
use super::joined::Joined;
use super::schedule::{Call, Elements, Event, Operation, RankSchedule, Work};
use super::words::Words;
use crate::ir::{CommunicatorId, LocalWork, Location, Reduction, SignalId, StreamId};
use crate::program::{Env, Kind, NONE, Op, OpKind, Program, Span, Unit, in_its_place};
use crate::verdict::Sizes;

/// The calls of a rank. `before` is the program before units were joined, at these sizes.
pub(super) fn calls(
    (before, sizes): (&Program, &Sizes),
    joined: &Joined,
    words: &Words<'_>,
    rank: usize,
    waits: &Waits,
) -> RankSchedule {
    let program = &joined.program;
    let own = program.of_rank(rank);
    let mut recorded = vec![None; own.len()];
    for wait in waits.of.iter().flatten() {
        recorded[wait.unit as usize] = Some(Event(0));
    }
    let events = recorded.iter_mut().flatten();
    let events = (0..).zip(events).map(|(number, event)| *event = Event(number)).count() as u32;
    let env = Env::new(&sizes.extents, &sizes.params).on(rank);
    let calls = own.clone().enumerate().map(|(place, at)| {
        let unit = &program.units[at];
        let awaited = |carried: bool| {
            let of = waits.of[place].iter().filter(|wait| wait.carried == carried);
            let mut of: Vec<Event> = of.filter_map(|wait| recorded[wait.unit as usize]).collect();
            of.sort_unstable();
            of
        };
        let work = if unit.is_compute {
            compute(program, words, unit, env)
        } else {
            Work::Group(operations(program, unit))
        };
        Call {
            stream: StreamId(unit.stream.into()),
            waits: awaited(false),
            carried: awaited(true),
            work,
            records: recorded[place],
            from: places(before, &joined.units[at]),
        }
    });
    RankSchedule { calls: calls.collect(), events }
}

/// The distinct locations of units.
fn places(program: &Program, units: &[u32]) -> Vec<Location> {
    let mut places = Vec::new();
    for &unit in units {
        let at = program.at(unit as usize);
        if !places.contains(&at) {
            places.push(at);
        }
    }
    places
}

fn compute(program: &Program, words: &Words<'_>, unit: &Unit, env: Env<'_>) -> Work {
    let step = words.work(unit.statement);
    if let Some(LocalWork { by: Some(by), .. }) = step {
        return assign(program, unit, *by);
    }
    // Their values were computed when the program was expanded.
    let env = Env { counters: program.counters.get(&unit.turn).map_or(&[], Vec::as_slice), ..env };
    let arguments = step.iter().flat_map(|step| step.arguments);
    let arguments = arguments.map_while(|one| env.eval(one).ok()).collect();
    let (reads, writes) = step.map_or((0, 0), |step| (step.reads.len(), step.writes.len()));
    let ops = program.ops_of(unit);
    let mut regions = vec![0; reads + writes];
    for op in ops {
        if op.source.object != NONE || op.target.object != NONE {
            regions[usize::from(op.part)] += 1;
        }
    }
    Work::Compute {
        name: step.and_then(|step| step.name).unwrap_or_default().to_owned(),
        arguments,
        reads: ops.iter().filter_map(|op| part(program, op.source)).collect(),
        writes: ops.iter().filter_map(|op| part(program, op.target)).collect(),
        regions: {
            let writes = regions.split_off(reads);
            (regions, writes)
        },
    }
}

fn assign(program: &Program, unit: &Unit, by: Reduction) -> Work {
    let ops = program.ops_of(unit);
    Work::Assign {
        to: ops.iter().find_map(|op| part(program, op.target)).unwrap_or_default(),
        by,
        of: ops.iter().filter_map(|op| source(program, op)).collect(),
    }
}

/// What an assignment reads, here or of another rank.
fn source(program: &Program, op: &Op) -> Option<Elements> {
    let rank = (op.kind == OpKind::Get).then_some(op.peer);
    part(program, op.source).map(|part| Elements { rank, ..part })
}

fn operations(program: &Program, unit: &Unit) -> Vec<Operation> {
    let mut all: Vec<Operation> = Vec::with_capacity(unit.ops as usize);
    let mut waiting = None;
    for op in program.ops_of(unit) {
        let among = CommunicatorId(op.communicator.into());
        let count = (op.count != NONE).then_some(op.count);
        let counted = |span| part(program, span).map(|part| Elements { count, ..part });
        let (source, target) = (counted(op.source), counted(op.target));
        let signal = (op.signal != NONE).then_some(SignalId(op.signal));
        let peer = op.peer;
        let one = match (op.kind, source, target) {
            (OpKind::Send, Some(from), _) => Operation::Send { from, peer, among },
            (OpKind::Receive, _, Some(to)) => Operation::Receive { to, peer, among },
            (OpKind::Put, Some(from), Some(to)) => Operation::Put { from, peer, to, signal, among },
            (OpKind::Signal, ..) => match signal {
                Some(signal) => Operation::Signal { signal, peer, among },
                None => continue,
            },
            (OpKind::Wait, ..) => {
                let Some(signal) = signal else { continue };
                let awaited = (signal, peer, op.times);
                // A single statement is one call, whatever it waits for.
                if waiting == Some((op.statement, op.communicator))
                    && let Some(Operation::Wait { signals, .. }) = all.last_mut()
                {
                    signals.push(awaited);
                    continue;
                }
                waiting = Some((op.statement, op.communicator));
                Operation::Wait { signals: vec![awaited], among }
            }
            (OpKind::Collective(kind), send, recv) => {
                let index =
                    |rank: u32| program.layout.index(op.communicator.into(), rank as usize) as u64;
                let in_place = in_place(kind, op, index(unit.rank));
                let root = if peer == NONE { 0 } else { index(peer) };
                let kind = kind.with_root(root as u32);
                Operation::Collective { kind, among, send, recv, in_place }
            }
            _ => continue,
        };
        all.push(one);
    }
    all
}

/// Whether a collective is in place as NCCL defines it, for the communicator's rank of that number.
fn in_place(kind: Kind, op: &Op, index: u64) -> bool {
    let (send, recv) = (op.source, op.target);
    if send.object == NONE || send.object != recv.object {
        return false;
    }
    in_its_place(kind, send, recv, index)
}

fn part(program: &Program, span: Span) -> Option<Elements> {
    let object = program.objects.all.get(span.object as usize)?;
    Some(Elements {
        buffer: object.buffer.0,
        index: object.index,
        next: object.other_copy < span.object,
        start: span.start,
        end: span.end,
        count: None,
        rank: None,
    })
}
