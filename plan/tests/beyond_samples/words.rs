//! The words of plans: short, for a great many of them.

use typed_nccl_plan::ir::Role::{In, InOut};
use typed_nccl_plan::ir::*;

pub(crate) fn n() -> Expr {
    Expr::Extent(AxisId(0))
}
pub(crate) fn r() -> Expr {
    Expr::Rank
}
pub(crate) fn p() -> Expr {
    Expr::Param(ParamId(0))
}
pub(crate) fn i() -> Expr {
    Expr::Loop(LoopId(0))
}
pub(crate) fn int(v: i64) -> Expr {
    Expr::Int(v)
}

pub(crate) fn step(kind: StepKind) -> Step {
    Step { kind, at: Location::default() }
}
pub(crate) fn on(s: u32) -> Place {
    Place { on: StreamId(s), after: vec![] }
}
pub(crate) fn after(s: u32, b: u32) -> Place {
    Place { on: StreamId(s), after: vec![StreamId(b)] }
}
pub(crate) fn all(b: u32) -> Region {
    Region::all(BufferId(b))
}
pub(crate) fn at(b: u32, index: Expr) -> Region {
    Region { index: Some(index), ..all(b) }
}
pub(crate) fn part(b: u32, from: impl Into<Expr>, to: impl Into<Expr>) -> Region {
    Region { range: Some((from.into(), to.into())), ..all(b) }
}
pub(crate) fn hop(axis: u32, by: impl Into<Expr>, wrap: bool) -> Peer {
    Peer::Shift(vec![Hop { axis: AxisId(axis), by: by.into(), wrap }])
}
pub(crate) fn ring(by: impl Into<Expr>) -> Peer {
    hop(0, by, true)
}
pub(crate) fn line(by: impl Into<Expr>) -> Peer {
    hop(0, by, false)
}
const W: CommunicatorId = CommunicatorId(0);
pub(crate) fn send(from: Region, peer: Peer, place: Place) -> Step {
    step(StepKind::Send(Send { from, peer, among: W, place }))
}
pub(crate) fn recv(to: Region, peer: Peer, place: Place) -> Step {
    step(StepKind::Receive(Receive { to, peer, among: W, place }))
}
pub(crate) fn transfer(from: Region, peer: Peer, to: Region, place: Place) -> Step {
    step(StepKind::Transfer(Transfer { from, peer, to, among: W, place }))
}
pub(crate) fn put(from: Region, peer: Peer, to: Region, s: u32, place: Place) -> Step {
    step(StepKind::Put(Put { from, peer, to, signal: Some(SignalId(s)), among: W, place }))
}
pub(crate) fn signal(s: u32, peer: Peer, place: Place) -> Step {
    step(StepKind::Signal(Signal { signal: SignalId(s), peer, among: W, place }))
}
pub(crate) fn wait(s: u32, peer: Peer, times: impl Into<Expr>, place: Place) -> Step {
    step(StepKind::Wait(Wait {
        signals: vec![Awaited { signal: SignalId(s), peer, times: times.into() }],
        among: W,
        place,
    }))
}
pub(crate) fn compute(reads: Vec<Region>, writes: Vec<Region>, place: Place) -> Step {
    step(StepKind::Compute(Compute { name: "f".into(), arguments: vec![], reads, writes, place }))
}
pub(crate) fn collective(kind: CollectiveKind, send: Region, recv: Region, place: Place) -> Step {
    step(StepKind::Collective(Collective { kind, send, recv, among: W, place }))
}
pub(crate) fn group(body: Vec<Step>) -> Step {
    step(StepKind::Group(body))
}
pub(crate) fn repeat(from: impl Into<Expr>, to: impl Into<Expr>, body: Vec<Step>) -> Step {
    step(StepKind::Loop(Loop {
        counter: LoopId(0),
        from: from.into(),
        to: to.into(),
        reverse: false,
        body,
    }))
}
pub(crate) fn when(condition: Condition, body: Vec<Step>) -> Step {
    step(StepKind::When(When { condition, body }))
}
pub(crate) fn buffer(name: &str, len: impl Into<Expr>, role: Role) -> Buffer {
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
pub(crate) fn window(name: &str, len: impl Into<Expr>, role: Role) -> Buffer {
    Buffer { window: true, ..buffer(name, len, role) }
}
pub(crate) fn array(
    name: &str,
    count: impl Into<Expr>,
    len: impl Into<Expr>,
    role: Role,
) -> Buffer {
    Buffer {
        array: Some(Array { count: count.into(), index: LoopId(1) }),
        ..buffer(name, len, role)
    }
}
pub(crate) fn named(names: &[&str]) -> Vec<Named> {
    names.iter().map(|name| Named { name: (*name).into(), at: Location::default() }).collect()
}
pub(crate) fn plan(
    axes: Vec<Values>,
    params: Vec<Values>,
    buffers: Vec<Buffer>,
    steps: Vec<Step>,
) -> Plan {
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
pub(crate) fn promise(mut plan: Plan, condition: Condition) -> Plan {
    plan.promises.push(Promise { condition, at: Location::default() });
    plan
}
pub(crate) fn least(v: i64) -> Values {
    Values::AtLeast(v)
}
pub(crate) fn exactly(v: i64) -> Values {
    Values::Exactly(v)
}
/// A ring in which each sends before it receives: waits in a circle.
pub(crate) fn circle() -> Vec<Step> {
    vec![send(all(0), ring(1), on(0)), recv(all(1), ring(-1), on(0))]
}
pub(crate) fn two() -> Vec<Buffer> {
    vec![buffer("u", 4, In), buffer("v", 4, InOut)]
}

/// Two windows.
pub(crate) fn windows() -> Vec<Buffer> {
    vec![window("u", 4, In), window("v", 4, InOut)]
}
