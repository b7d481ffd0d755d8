//! A14: what the plan says it computes, followed element by element.

use std::collections::HashMap;

use super::graph::Graph;
use super::instance::Instance;
use super::links::Links;
use super::report::Report;
use crate::ir::Postcondition;
use crate::program::{Budget, Env, Kind, NONE, OpKind, Program, Span, Unit};
use crate::verdict::{Check, Line};

/// One term: the rank, the object and the element that it was when the run began.
type Term = (u32, u32, u64);

/// What an element is, as far as messages and reductions say.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Value {
    /// Terms, reduced by the reduction of that name; one term alone is itself.
    Of(&'static str, Vec<Term>),
    /// What a compute step made, or mixed reductions: unit and a number.
    Unknown(u32, u64),
}

/// All values so far, each once.
#[derive(Default)]
struct Values {
    all: Vec<Value>,
    known: HashMap<Value, u32>,
    /// Terms of one value at most: no claim is of more than one of each rank, and terms never become fewer.
    most: usize,
    /// Terms in all values, and whether there were too many.
    terms: usize,
    too_many: bool,
}

/// Terms in all values at most: what bounds the memory.
const MOST_TERMS: usize = 4_000_000;

impl Values {
    fn id(&mut self, value: Value) -> u32 {
        if let Some(&id) = self.known.get(&value) {
            return id;
        }
        let id = self.all.len() as u32;
        self.all.push(value.clone());
        self.known.insert(value, id);
        id
    }

    fn reduce(&mut self, by: &'static str, parts: &[u32], unit: u32, element: u64) -> u32 {
        if let [one] = parts {
            return *one;
        }
        let mut terms = Vec::new();
        for &part in parts {
            match &self.all[part as usize] {
                Value::Of(how, more)
                    if (more.len() == 1 || *how == by) && terms.len() + more.len() <= self.most =>
                {
                    terms.extend(more);
                }
                _ => return self.id(Value::Unknown(unit, element)),
            }
        }
        self.terms += terms.len();
        if self.terms > MOST_TERMS {
            self.too_many = true;
            return self.id(Value::Unknown(unit, element));
        }
        terms.sort_unstable();
        self.id(Value::Of(by, terms))
    }
}

/// The memory of all ranks: for each rank and object, an identity per element.
type Memory = HashMap<(u32, u32), Vec<u32>>;

pub(crate) fn check(
    instance: &Instance<'_>,
    links: &Links,
    budget: &mut Budget,
    report: &mut Report<'_>,
) {
    if instance.plan.computes.is_empty() {
        return;
    }
    let program = instance.program;
    let elements = program.objects.all.iter().map(|object| object.len);
    let elements = elements.fold(0_u64, u64::saturating_add);
    let moved = program.ops.iter().map(|op| op.source.len().max(op.target.len()));
    let moved = moved.fold(0_u64, u64::saturating_add);
    let work = elements.saturating_mul(program.ranks() as u64).saturating_add(moved);
    if work > 1 << 20 || !budget.take(work) {
        return report.too_large("following every element of the buffers");
    }
    let mut values = Values { most: program.ranks().max(64), ..Values::default() };
    let memory = run(instance, links, &mut values);
    for claim in &instance.plan.computes {
        if values.too_many || !budget.take(work) {
            return report.too_large("following every element of the buffers");
        }
        compare(instance, links, claim, &memory, &mut values, report);
    }
}

fn initial(program: &Program, values: &mut Values) -> Memory {
    let mut memory = Memory::new();
    for rank in 0..program.ranks() as u32 {
        for (object, of) in (0..).zip(&program.objects.all) {
            let all = (0..of.len).map(|at| values.id(Value::Of("", vec![(rank, object, at)])));
            memory.insert((rank, object), all.collect());
        }
    }
    memory
}

fn read(memory: &Memory, rank: u32, span: Span) -> Vec<u32> {
    if span.object == NONE {
        return Vec::new();
    }
    memory[&(rank, span.object)][span.start as usize..span.end as usize].to_vec()
}

fn write(memory: &mut Memory, rank: u32, span: Span, data: &[u32]) {
    if span.object != NONE
        && let Some(object) = memory.get_mut(&(rank, span.object))
    {
        let place = &mut object[span.start as usize..span.end as usize];
        if place.len() == data.len() {
            place.copy_from_slice(data);
        }
    }
}

/// One run, in an order that everything follows.
fn run(instance: &Instance<'_>, links: &Links, values: &mut Values) -> Memory {
    let program = instance.program;
    let units = program.units.len() as u32;
    let local = super::local::Local::new(program, 1);
    let graph: Graph = super::deadlock::blocks(program, links, &local, false);
    let mut memory = initial(program, values);
    // What each operation read when its unit started.
    let mut taken: Vec<Vec<u32>> = vec![Vec::new(); program.ops.len()];
    let from: HashMap<u32, u32> =
        links.messages.iter().map(|message| (message.receive_op, message.send_op)).collect();
    let mut meeting_of = HashMap::new();
    for (at, meeting) in links.collectives.iter().enumerate() {
        meeting_of.extend(meeting.members.iter().map(|&(_, op)| (op, at)));
    }
    let mut arriving: HashMap<u32, Vec<u32>> = HashMap::new();
    for arrival in &links.signals.arrivals {
        let when = arrival.wait.filter(|(_, later)| !later).map(|(unit, _)| unit);
        arriving.entry(when.unwrap_or(arrival.put_unit)).or_default().push(arrival.put_op);
    }
    let source_of: HashMap<u32, u32> = links
        .signals
        .arrivals
        .iter()
        .map(|arrival| (arrival.put_op, program.units[arrival.put_unit as usize].rank))
        .collect();
    for node in graph.sorted() {
        let unit = node / 2;
        if node >= 2 * units {
            continue;
        }
        let of = &program.units[unit as usize];
        let ops = (of.first_op..).zip(program.ops_of(of));
        if node % 2 == 0 {
            for (at, op) in ops {
                taken[at as usize] = read(&memory, of.rank, op.source);
            }
            continue;
        }
        for (at, op) in ops {
            let data = match op.kind {
                OpKind::Write => (op.target.start..op.target.end)
                    .map(|element| {
                        let mark = u64::from(at) << 40 | element;
                        values.id(Value::Unknown(unit, mark))
                    })
                    .collect(),
                OpKind::Receive => {
                    from.get(&at).map_or_else(Vec::new, |send| taken[*send as usize].clone())
                }
                OpKind::Collective(kind) => match meeting_of.get(&at) {
                    Some(&meeting) => {
                        let meeting = &links.collectives[meeting];
                        let parts: Vec<&[u32]> = meeting
                            .members
                            .iter()
                            .map(|(_, op)| taken[*op as usize].as_slice())
                            .collect();
                        let own = meeting.members.iter().position(|(_, op)| *op == at).unwrap_or(0);
                        let root = meeting.root.unwrap_or(0) as usize;
                        collective(kind, &parts, own, root, unit, values)
                    }
                    None => continue,
                },
                _ => continue,
            };
            if data.len() as u64 == op.target.len() {
                write(&mut memory, of.rank, op.target, &data);
            }
        }
        for put in arriving.get(&unit).into_iter().flatten() {
            let op = &program.ops[*put as usize];
            debug_assert!(source_of.contains_key(put));
            write(&mut memory, op.peer, op.target, &taken[*put as usize]);
        }
    }
    memory
}

/// What a member receives, from what all sent.
fn collective(
    kind: Kind,
    parts: &[&[u32]],
    own: usize,
    root: usize,
    unit: u32,
    values: &mut Values,
) -> Vec<u32> {
    let size = parts.len();
    let mut reduce = |by: crate::ir::Reduction, range: std::ops::Range<usize>| -> Vec<u32> {
        let name = match by {
            crate::ir::Reduction::Sum => "sum",
            crate::ir::Reduction::Prod => "prod",
            crate::ir::Reduction::Min => "min",
            crate::ir::Reduction::Max => "max",
            crate::ir::Reduction::Avg => "avg",
        };
        range
            .map(|at| {
                let all: Vec<u32> = parts.iter().map(|part| part[at]).collect();
                values.reduce(name, &all, unit, at as u64)
            })
            .collect()
    };
    let share = |part: &[u32], at: usize| {
        let count = part.len() / size;
        part[at * count..(at + 1) * count].to_vec()
    };
    match kind {
        Kind::AllReduce(by) => reduce(by, 0..parts[0].len()),
        Kind::Reduce(by) if own == root => reduce(by, 0..parts[0].len()),
        Kind::ReduceScatter(by) => {
            let count = parts[0].len() / size;
            reduce(by, own * count..(own + 1) * count)
        }
        Kind::Broadcast => parts[root].to_vec(),
        Kind::AllGather => parts.concat(),
        Kind::Gather if own == root => parts.concat(),
        Kind::AllToAll => parts.iter().flat_map(|part| share(part, own)).collect(),
        Kind::Scatter => share(parts[root], own),
        Kind::Reduce(_) | Kind::Gather => Vec::new(),
    }
}

fn compare(
    instance: &Instance<'_>,
    links: &Links,
    claim: &Postcondition,
    memory: &Memory,
    values: &mut Values,
    report: &mut Report<'_>,
) {
    let &Instance { plan, program, sizes } = instance;
    let counters = vec![None; plan.counters.len()];
    let size = program.ranks();
    let env = |rank: usize| Env {
        extents: &sizes.extents,
        size: size as i64,
        params: &sizes.params,
        counters: &counters,
        rank: rank as i64,
    };
    let kind = Kind::from(&claim.kind);
    let root = match claim.kind.root().map(|root| env(0).eval(root)) {
        None => 0,
        Some(Ok(root)) if (0..size as i64).contains(&root) => root as usize,
        Some(_) => {
            return report.tell(
                Check::Bounds,
                claim.at,
                "the root of what the plan computes is not a rank",
                Vec::new(),
                &["name a rank of the plan"],
            );
        }
    };
    let mut spans = Vec::with_capacity(size);
    for rank in 0..size {
        let find = |region| super::regions::span(program, &env(rank), region);
        match (find(&claim.send), find(&claim.recv)) {
            (Some(send), Some(recv)) => spans.push((send, recv)),
            _ => {
                let title =
                    format!("a region of what the plan computes does not exist on rank {rank}");
                return report.tell(
                    Check::Bounds,
                    claim.at,
                    title,
                    Vec::new(),
                    &["change its range"],
                );
            }
        }
    }
    // What was in `send` when the run began, as the plan's own initial values.
    let parts: Vec<Vec<u32>> = (0..)
        .zip(&spans)
        .map(|(rank, (send, _))| {
            (send.start..send.end)
                .map(|at| values.id(Value::Of("", vec![(rank, send.object, at)])))
                .collect()
        })
        .collect();
    let parts: Vec<&[u32]> = parts.iter().map(Vec::as_slice).collect();
    let uneven = parts.iter().any(|part| part.len() != parts[0].len());
    let splits = matches!(kind, Kind::ReduceScatter(_) | Kind::AllToAll | Kind::Scatter);
    if uneven || (splits && !parts[0].len().is_multiple_of(size)) {
        let title =
            format!("what the plan says it computes is no {}: its parts differ", kind.name());
        return report.tell(
            Check::Postcondition,
            claim.at,
            title,
            Vec::new(),
            &["change the regions"],
        );
    }
    for (rank, (_, recv)) in spans.iter().enumerate() {
        if matches!(kind, Kind::Reduce(_) | Kind::Gather) && rank != root {
            continue;
        }
        let expected = collective(kind, &parts, rank, root, NONE, values);
        let found = read(memory, rank as u32, *recv);
        let wrong = if expected.len() == found.len() {
            (0..found.len()).find(|&at| found[at] != expected[at])
        } else {
            Some(expected.len().min(found.len()))
        };
        if let Some(at) = wrong {
            let text = |of: Option<&u32>, values: &Values| match of {
                None => "nothing".to_owned(),
                Some(&id) => describe(&values.all[id as usize], report),
            };
            let (is, should) = (text(found.get(at), values), text(expected.get(at), values));
            let title = format!(
                "on rank {rank}, {} does not hold what {} would leave there",
                report.name(*recv),
                kind.name()
            );
            let line = |text: String| Line { rank: Some(rank), other: None, at: claim.at, text };
            let story = vec![
                line(format!("has in element {at} of it: {is}")),
                line(format!("should have there: {should}")),
            ];
            let element = recv.start + at as u64;
            let mut story = story;
            let writer = writer(program, links, rank as u32, recv.object, element, report);
            let line = writer.as_ref().map(|(line, _)| line.at.line);
            let is_unknown = found
                .get(at)
                .is_some_and(|&id| matches!(values.all[id as usize], Value::Unknown(..)));
            let help = match (&writer, line) {
                _ if is_unknown => {
                    "what a compute step or mixed reductions make is not followed: take the `computes` line \
                                    away, or write it as a message or a collective"
                        .to_owned()
                }
                (Some((_, true)), Some(line)) => {
                    format!("correct the range after `into` in line {line}, or the `computes` line")
                }
                (Some(_), Some(line)) => format!("correct line {line}, or the `computes` line"),
                _ => format!(
                    "nothing writes it: let a message or a collective do it, or correct what the plan says it \
                     computes, {}",
                    kind.name()
                ),
            };
            story.extend(writer.map(|(line, _)| line));
            return report.tell(Check::Postcondition, claim.at, title, story, &[&help]);
        }
    }
}

/// The last statement that writes an element, as a line, and whether that says where it writes at the sender.
fn writer(
    program: &Program,
    links: &Links,
    rank: u32,
    object: u32,
    element: u64,
    report: &Report<'_>,
) -> Option<(Line, bool)> {
    let covers = |span: Span| span.object == object && (span.start..span.end).contains(&element);
    let ops = |unit: &Unit| (unit.first_op..).zip(program.ops_of(unit));
    let own = program.units[program.of_rank(rank as usize)].iter().flat_map(ops);
    let own = own.filter(|(_, op)| op.kind != OpKind::Put && covers(op.target)).last();
    if let Some((at, op)) = own {
        let message = links.messages.iter().find(|message| message.receive_op == at);
        return Some(match message {
            Some(message) => {
                let send = &program.ops[message.send_op as usize];
                let from = program.units[message.send_unit as usize].rank;
                let text = format!(
                    "sends its {} to rank {rank} into {}",
                    report.name(send.source),
                    report.name(op.target)
                );
                // Where the two halves are two statements, the receive says where it writes.
                let is_one = send.statement == op.statement;
                let at = program.place(op.statement);
                (Line { at, ..report.line(from, send, text) }, is_one)
            }
            None => (report.line(rank, op, report.does(op)), false),
        });
    }
    let mut puts = links.signals.arrivals.iter().rev();
    let put = puts.find(|put| {
        let op = &program.ops[put.put_op as usize];
        op.peer == rank && covers(op.target)
    })?;
    let op = &program.ops[put.put_op as usize];
    let from = program.units[put.put_unit as usize].rank;
    Some((report.line(from, op, report.does(op)), true))
}

fn describe(value: &Value, report: &Report<'_>) -> String {
    let term = |(rank, object, element): &Term| {
        format!("element {element} of {} of rank {rank}", report.object_name(*object))
    };
    match value {
        Value::Unknown(..) => "what a compute step or mixed reductions made".to_owned(),
        Value::Of(_, terms) if terms.len() == 1 => term(&terms[0]),
        Value::Of(by, terms) => {
            let shown: Vec<String> = terms.iter().take(4).map(term).collect();
            let more = if terms.len() > 4 { ", ..." } else { "" };
            format!("{by} of {} terms: {}{more}", terms.len(), shown.join(", "))
        }
    }
}
