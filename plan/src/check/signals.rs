//! A11: signals are raised as often as they are awaited; which wait consumes which.

use std::collections::{BTreeMap, HashMap};

use super::instance::Instance;
use super::links::{Arrival, Raised, Signals};
use super::report::Report;
use crate::ir::Launch;
use crate::program::{NONE, Op, OpKind, Program};
use crate::releases::{CAPTURED_SIGNALS_PILE_UP, SEVERAL_SIGNALS};
use crate::verdict::{Check, Line};

/// Communicator, source, target.
type Channel = (u16, u32, u32);

/// One raise, wait or put: the operation.
type Use = u32;

#[derive(Default)]
struct Uses {
    raises: Vec<Use>,
    waits: Vec<Use>,
    puts: Vec<Use>,
}

pub(crate) fn check(instance: &Instance<'_>, report: &mut Report<'_>) -> Signals {
    let program = instance.program;
    let mut channels: HashMap<Channel, Uses> = HashMap::new();
    for (at, op) in (0..).zip(&program.ops) {
        let rank = program.rank(op);
        let (ours, theirs) = ((op.communicator, rank, op.peer), (op.communicator, op.peer, rank));
        match op.kind {
            OpKind::Put => {
                let uses = channels.entry(ours).or_default();
                uses.puts.push(at);
                if op.signal != NONE {
                    uses.raises.push(at);
                }
            }
            OpKind::Signal => channels.entry(ours).or_default().raises.push(at),
            OpKind::Wait => channels.entry(theirs).or_default().waits.push(at),
            _ => {}
        }
    }
    let mut ordered: Vec<_> = channels.into_iter().collect();
    ordered.sort_unstable_by_key(|(channel, _)| *channel);
    let (plan, target) = (instance.plan, instance.plan.target);
    let collapse = target.is_before(SEVERAL_SIGNALS);
    let credit = plan.launch == Launch::Captured && target.is_before(CAPTURED_SIGNALS_PILE_UP);
    let mut signals = Signals::default();
    let mut uneven = Vec::new();
    for (channel, uses) in &ordered {
        let rules = (collapse, credit);
        of_channel(program, *channel, uses, rules, &mut signals, &mut uneven, report);
    }
    tell(program, &uneven, report);
    signals
}

fn of_channel<'a>(
    program: &Program,
    channel: Channel,
    uses: &'a Uses,
    (collapse, credit): (bool, bool),
    signals: &mut Signals,
    uneven: &mut Vec<Uneven<'a>>,
    report: &mut Report<'_>,
) {
    let op = |of: &Use| &program.ops[*of as usize];
    let name = |of: &Use| op(of).signal;
    // By signal: which raises, which waits.
    let mut by_name: BTreeMap<u32, (Vec<usize>, Vec<Use>)> = BTreeMap::new();
    for (at, raise) in uses.raises.iter().enumerate() {
        by_name.entry(name(raise)).or_default().0.push(at);
    }
    for wait in &uses.waits {
        by_name.entry(name(wait)).or_default().1.push(*wait);
    }
    for (&signal, (raises, waits)) in &by_name {
        let raised = raises.len() as u64;
        let awaited = waits.iter().map(|of| u64::from(op(of).times));
        let awaited = awaited.sum::<u64>();
        if raised != awaited {
            return uneven.push(Uneven { channel, uses, signal, raised, awaited });
        }
    }
    // What each raise is consumed by: per signal, or all signals in one order.
    let mut consumers: Vec<u32> = vec![0; uses.raises.len()];
    let groups: Vec<(Vec<usize>, Vec<Use>)> = if collapse {
        vec![((0..uses.raises.len()).collect(), uses.waits.clone())]
    } else {
        by_name.into_values().collect()
    };
    for (raises, waits) in groups {
        let mut raises = raises.into_iter();
        let mut before: Option<u32> = None;
        for wait in &waits {
            for _ in 0..op(wait).times {
                let Some(at) = raises.next() else { break };
                consumers[at] = op(wait).unit;
                if name(&uses.raises[at]) != name(wait) {
                    return disordered(op(&uses.raises[at]), op(wait), report);
                }
                let (raise_unit, wait_unit) = (op(&uses.raises[at]).unit, op(wait).unit);
                signals.raised.push(Raised { raise_unit, wait_unit });
                if credit && let Some(before) = before {
                    signals.credits.push((before, raise_unit));
                }
                before = Some(wait_unit);
            }
        }
    }
    // A put has arrived when the first signal that is raised with it or after it is consumed.
    let mut next = 0;
    for put in &uses.puts {
        while next < uses.raises.len() && uses.raises[next] < *put {
            next += 1;
        }
        // After the last signal of a run, the first one of the next run says it.
        let wait = match consumers.get(next) {
            Some(&wait) => Some((wait, false)),
            None => consumers.first().map(|&wait| (wait, true)),
        };
        signals.arrivals.push(Arrival { put: *put, wait });
    }
}

/// A signal that is not raised as often as it is awaited.
#[derive(Clone, Copy)]
struct Uneven<'a> {
    channel: Channel,
    uses: &'a Uses,
    signal: u32,
    raised: u64,
    awaited: u64,
}

/// Reports uneven signals. A signal awaited from a rank other than the one that raises it is one
/// problem.
fn tell(program: &Program, uneven: &[Uneven<'_>], report: &mut Report<'_>) {
    // Around a ring many pairs are alike: what is told once of a statement is not looked for again.
    let mut told: Vec<(u32, u32)> = Vec::new();
    let last = |one: &Uneven<'_>, uses: &[Use]| {
        uses.iter().rfind(|of| program.ops[**of as usize].signal == one.signal).copied()
    };
    let statement = |op: u32| program.ops[op as usize].statement;
    let mut awaited_of: HashMap<(u16, u32, u32), &Uneven<'_>> = HashMap::new();
    for one in uneven.iter().filter(|one| one.raised == 0) {
        awaited_of.entry((one.channel.0, one.channel.2, one.signal)).or_insert(one);
    }
    for raised in uneven.iter().filter(|one| one.awaited == 0) {
        let (among, _, target) = raised.channel;
        let Some(awaited) = awaited_of.get(&(among, target, raised.signal)) else { continue };
        let (Some(raise), Some(wait)) =
            (last(raised, &raised.uses.raises), last(awaited, &awaited.uses.waits))
        else {
            continue;
        };
        let pair = (statement(raise), statement(wait));
        if told.contains(&pair) {
            continue;
        }
        // More are not told.
        if told.len() == 8 {
            break;
        }
        told.push(pair);
        elsewhere(&program.ops[raise as usize], &program.ops[wait as usize], report);
    }
    for one in uneven {
        let mut ops = last(one, &one.uses.raises).into_iter().chain(last(one, &one.uses.waits));
        if !ops.any(|op| told.iter().any(|&(a, b)| [a, b].contains(&statement(op)))) {
            unbalanced(program, one, report);
        }
    }
}

/// A signal that is awaited from another rank than the one that raises it.
fn elsewhere(raise: &Op, wait: &Op, report: &mut Report<'_>) {
    let program = report.program;
    let (source, target, meant) = (program.rank(raise), program.rank(wait), wait.peer);
    let signal = report.signal(wait.signal);
    let title =
        format!("rank {target} awaits `{signal}` of rank {meant}, but rank {source} raises it");
    let story = vec![report.says(raise), report.says(wait)];
    let lines = (program.place(raise.statement).line, program.place(wait.statement).line);
    let (from, to) = (report.of_list(wait.statement), report.of_list(raise.statement));
    let help = [
        match report.back(raise) {
            Some(back) => format!("wait for it from `{back}` in line {}{from}", lines.1),
            None => format!("wait for it from rank {source} in line {}{from}", lines.1),
        },
        match report.back(wait) {
            Some(back) => format!("or raise it at `{back}` in line {}{to}", lines.0),
            None => format!("or raise it on rank {meant}"),
        },
    ];
    report.tell(Check::Signals, program.place(wait.statement), title, story, &help);
}

fn unbalanced(program: &Program, one: &Uneven<'_>, report: &mut Report<'_>) {
    let &Uneven { channel: (_, source, target), uses, signal, raised, awaited } = one;
    let ours = |op: &&Op| op.signal == signal;
    let last = |of: &[Use]| of.iter().map(|of| &program.ops[*of as usize]).rfind(ours);
    let (last_raise, last_wait) = (last(&uses.raises), last(&uses.waits));
    let mut story = Vec::new();
    for (op, times) in [(last_raise, raised), (last_wait, awaited)] {
        let line =
            |op| report.line(op, format!("{} ({} in a run)", report.does(op), self::times(times)));
        story.extend(op.map(line));
    }
    let at = last_wait.filter(|_| awaited > raised).or(last_raise).or(last_wait);
    let at = at.map_or_else(Default::default, |op| program.place(op.statement));
    if story.len() < 2 {
        let (rank, other, verb) =
            if raised == 0 { (source, target, "raises") } else { (target, source, "waits for") };
        let line = Line::of(rank as usize, at, format!("never {verb} it"));
        story.push(Line { other: Some(other as usize), ..line });
    }
    let signal = report.signal(signal);
    let title = format!(
        "rank {source} {} signal `{signal}` at rank {target}{} in a run, and {}",
        if raised == 0 { "never raises" } else { "raises" },
        if raised == 0 { String::new() } else { format!(" {}", times(raised)) },
        if awaited == 0 {
            "it is never awaited".to_owned()
        } else {
            format!("it is awaited {}", times(awaited))
        },
    );
    let help = if awaited > raised {
        ["raise it once more for each wait", "or wait for fewer"]
    } else {
        [
            "wait for it once more for each raise: what is left over is taken by the next run",
            "or raise it less often",
        ]
    };
    report.tell(Check::Signals, at, title, story, &help);
}

/// How often, for people.
fn times(count: u64) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{more} times"),
    }
}

fn disordered(raised: &Op, awaited: &Op, report: &mut Report<'_>) {
    let story = vec![report.says(raised), report.says(awaited)];
    let title = "signals of one rank are awaited in another order than they are raised";
    let newer = format!("or declare NCCL {} as the target", SEVERAL_SIGNALS.release());
    let help = [
        "await them in the order in which they are raised: this NCCL counts all signals of a pair of \
         ranks together",
        &newer,
    ];
    let at = report.program.place(awaited.statement);
    report.tell(Check::Signals, at, title, story, &help);
}
