//! Plans that are wrong only at sizes that are far from the first ones: none of them is accepted.
#![allow(dead_code, missing_docs, reason = "the words of plans, used or not")]

use typed_nccl_plan::check::{check, check_at};
use typed_nccl_plan::ir::Role::{In, InOut, Local, Out};
use typed_nccl_plan::ir::*;
use typed_nccl_plan::verdict::Sizes;

fn n() -> Expr {
    Expr::Extent(AxisId(0))
}
fn m() -> Expr {
    Expr::Extent(AxisId(1))
}
fn r() -> Expr {
    Expr::Rank
}
fn p() -> Expr {
    Expr::Param(ParamId(0))
}
fn i() -> Expr {
    Expr::Loop(LoopId(0))
}
fn int(v: i64) -> Expr {
    Expr::Int(v)
}

fn step(kind: StepKind) -> Step {
    Step { kind, at: Location::default() }
}
fn on(s: u32) -> Place {
    Place { on: StreamId(s), after: vec![] }
}
fn after(s: u32, b: u32) -> Place {
    Place { on: StreamId(s), after: vec![StreamId(b)] }
}
fn all(b: u32) -> Region {
    Region::all(BufferId(b))
}
fn at(b: u32, index: Expr) -> Region {
    Region { index: Some(index), ..all(b) }
}
fn part(b: u32, from: impl Into<Expr>, to: impl Into<Expr>) -> Region {
    Region { range: Some((from.into(), to.into())), ..all(b) }
}
fn hop(axis: u32, by: impl Into<Expr>, wrap: bool) -> Peer {
    Peer::Shift(vec![Hop { axis: AxisId(axis), by: by.into(), wrap }])
}
fn ring(by: impl Into<Expr>) -> Peer {
    hop(0, by, true)
}
fn line(by: impl Into<Expr>) -> Peer {
    hop(0, by, false)
}
const W: CommunicatorId = CommunicatorId(0);
fn send(from: Region, peer: Peer, place: Place) -> Step {
    step(StepKind::Send(Send { from, peer, among: W, place }))
}
fn recv(to: Region, peer: Peer, place: Place) -> Step {
    step(StepKind::Receive(Receive { to, peer, among: W, place }))
}
fn transfer(from: Region, peer: Peer, to: Region, place: Place) -> Step {
    step(StepKind::Transfer(Transfer { from, peer, to, among: W, place }))
}
fn put(from: Region, peer: Peer, to: Region, s: u32, place: Place) -> Step {
    step(StepKind::Put(Put { from, peer, to, signal: Some(SignalId(s)), among: W, place }))
}
fn signal(s: u32, peer: Peer, place: Place) -> Step {
    step(StepKind::Signal(Signal { signal: SignalId(s), peer, among: W, place }))
}
fn wait(s: u32, peer: Peer, times: impl Into<Expr>, place: Place) -> Step {
    step(StepKind::Wait(Wait {
        signals: vec![Awaited { signal: SignalId(s), peer, times: times.into() }],
        among: W,
        place,
    }))
}
fn compute(reads: Vec<Region>, writes: Vec<Region>, place: Place) -> Step {
    step(StepKind::Compute(Compute { name: "f".into(), arguments: vec![], reads, writes, place }))
}
fn collective(kind: CollectiveKind, send: Region, recv: Region, place: Place) -> Step {
    step(StepKind::Collective(Collective { kind, send, recv, among: W, place }))
}
fn group(body: Vec<Step>) -> Step {
    step(StepKind::Group(body))
}
fn repeat(from: impl Into<Expr>, to: impl Into<Expr>, body: Vec<Step>) -> Step {
    step(StepKind::Loop(Loop {
        counter: LoopId(0),
        from: from.into(),
        to: to.into(),
        reverse: false,
        body,
    }))
}
fn when(condition: Condition, body: Vec<Step>) -> Step {
    step(StepKind::When(When { condition, body }))
}
fn buffer(name: &str, len: impl Into<Expr>, role: Role) -> Buffer {
    Buffer {
        name: name.into(),
        element: ElementType::F32,
        len: len.into(),
        array: None,
        role,
        window: false,
        copies: 1,
        at: Location::default(),
    }
}
fn window(name: &str, len: impl Into<Expr>, role: Role) -> Buffer {
    Buffer { window: true, ..buffer(name, len, role) }
}
fn array(name: &str, count: impl Into<Expr>, len: impl Into<Expr>, role: Role) -> Buffer {
    Buffer {
        array: Some(Array { count: count.into(), index: LoopId(1) }),
        ..buffer(name, len, role)
    }
}
fn named(names: &[&str]) -> Vec<Named> {
    names.iter().map(|name| Named { name: (*name).into(), at: Location::default() }).collect()
}
fn plan(axes: Vec<Values>, params: Vec<Values>, buffers: Vec<Buffer>, steps: Vec<Step>) -> Plan {
    let names = ["n", "m", "l", "k"];
    let axes: Vec<Axis> = axes
        .into_iter()
        .zip(names)
        .map(|(extent, name)| Axis { name: name.into(), extent, at: Location::default() })
        .collect();
    Plan {
        name: "attack".into(),
        files: vec![],
        communicators: vec![Communicator {
            name: "world".into(),
            axes: (0..axes.len() as u32).map(AxisId).collect(),
            at: Location::default(),
        }],
        axes,
        params: params
            .into_iter()
            .zip(["p", "q", "s"])
            .map(|(values, name)| Param {
                name: name.into(),
                values,
                count: None,
                at: Location::default(),
            })
            .collect(),
        promises: vec![],
        buffers,
        signals: named(&["x", "y", "z"]),
        streams: named(&["a", "b", "c"]),
        counters: named(&["i", "j", "k"]),
        steps,
        launch: Launch::Eager,
        replayed: false,
        target: Version::default(),
        order: Order::Declared,
        covers: vec![],
        computes: vec![],
    }
}
fn promise(mut plan: Plan, condition: Condition) -> Plan {
    plan.promises.push(Promise { condition, at: Location::default() });
    plan
}
fn least(v: i64) -> Values {
    Values::AtLeast(v)
}
fn exactly(v: i64) -> Values {
    Values::Exactly(v)
}

/// A plan that is wrong at these sizes, and not accepted for all.
fn refused(plan: &Plan, extents: Vec<i64>, params: Vec<Vec<i64>>) {
    assert!(plan.validate().is_empty(), "no plan");
    let sizes = Sizes { extents, params, text: String::new() };
    assert!(check_at(plan, &sizes).is_err(), "right at these sizes");
    assert!(check(plan).is_err(), "accepted for all sizes");
}

fn scratch(body: Vec<Step>) -> Plan {
    plan(vec![exactly(2)], vec![least(1)], vec![buffer("s", p(), Local)], body)
}

#[test]
fn an_array_that_shrinks() {
    let buffers = vec![array("u", int(70) - p(), 4, InOut)];
    let steps = vec![compute(vec![at(0, int(5))], vec![], on(0))];
    refused(&plan(vec![exactly(2)], vec![least(1)], buffers, steps), vec![2], vec![vec![66]]);
}

#[test]
fn all_is_read_where_the_last_elements_are_not_written() {
    let steps = vec![
        compute(vec![], vec![part(0, 0, p() - p() / 64)], on(0)),
        compute(vec![all(0)], vec![], on(0)),
    ];
    refused(&scratch(steps), vec![2], vec![vec![64]]);
}

#[test]
fn part_of_a_sum_is_summed_again() {
    let again = || part(1, 0, p() / 100 * int(100) / 100);
    let sum = || CollectiveKind::AllReduce(Reduction::Sum);
    let steps =
        vec![collective(sum(), all(0), all(1), on(0)), collective(sum(), again(), again(), on(0))];
    let buffers = vec![buffer("u", p(), In), buffer("v", p(), Out)];
    let mut plan = plan(vec![exactly(2)], vec![least(1)], buffers, steps);
    let at = Location::default();
    plan.computes.push(Postcondition { kind: sum(), send: all(0), recv: all(1), at });
    refused(&plan, vec![2], vec![vec![100]]);
}

#[test]
fn a_root_beyond_the_ranks() {
    let buffers = vec![buffer("u", 4, In), buffer("v", 4, InOut)];
    let steps = vec![collective(CollectiveKind::Broadcast(p() / 4), all(0), all(1), on(0))];
    let plan = plan(vec![least(4)], vec![Values::Range(0, 63)], buffers, steps);
    refused(&plan, vec![4], vec![vec![63]]);
}

#[test]
fn a_collective_that_is_longer_on_later_ranks() {
    let buffers = vec![buffer("u", n() + 1, In), buffer("v", n() + 1, InOut)];
    let some = |buffer: u32| part(buffer, 0, int(1) + r() / 64);
    let sum = CollectiveKind::AllReduce(Reduction::Sum);
    let steps = vec![collective(sum, some(0), some(1), on(0))];
    refused(&plan(vec![least(1)], vec![], buffers, steps), vec![65], vec![]);
}

#[test]
fn a_group_that_meets_itself_at_a_later_rank() {
    let at = || int(1) + r() % 65;
    let steps = vec![group(vec![
        transfer(part(0, 0, 1), ring(1), part(0, at(), at() + 1), on(0)),
        transfer(part(0, 65, 66), ring(2), part(0, 66, 67), on(0)),
    ])];
    refused(&plan(vec![least(70)], vec![], vec![buffer("u", 70, InOut)], steps), vec![70], vec![]);
}

#[test]
fn a_put_far_around_a_ring() {
    let buffers = vec![window("u", 4, In), window("v", 4, InOut)];
    let steps = vec![
        compute(vec![all(1)], vec![], on(0)),
        put(all(0), ring(17), all(1), 0, on(0)),
        wait(0, ring(-17), 1, on(0)),
    ];
    refused(&plan(vec![Values::Range(17, 100)], vec![], buffers, steps), vec![20], vec![]);
}
