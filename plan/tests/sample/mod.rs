//! A plan on a mesh that has one of everything.

use typed_nccl_plan::ir::*;

pub(crate) fn at(line: u32) -> Location {
    Location::new(line, 1)
}

pub(crate) fn named(name: &str, line: u32) -> Named {
    Named { name: name.to_owned(), at: at(line) }
}

pub(crate) fn buffer(name: &str, len: Expr, role: Role, line: u32) -> Buffer {
    Buffer {
        name: name.to_owned(),
        element: ElementType::F32,
        len,
        array: None,
        role,
        window: false,
        copies: 1,
        at: at(line),
    }
}

pub(crate) fn place(on: u32, after: &[u32]) -> Place {
    Place { on: StreamId(on), after: after.iter().map(|stream| StreamId(*stream)).collect() }
}

pub(crate) fn step(kind: StepKind, line: u32) -> Step {
    Step { kind, at: at(line) }
}

pub(crate) fn hop(axis: u32, by: i64, wrap: bool) -> Hop {
    Hop { axis: AxisId(axis), by: by.into(), wrap }
}

pub(crate) fn part(buffer: u32, start: impl Into<Expr>, end: impl Into<Expr>) -> Region {
    Region { range: Some((start.into(), end.into())), ..Region::all(BufferId(buffer)) }
}

pub(crate) const X: u32 = 0;
pub(crate) const Y: u32 = 1;
pub(crate) const U: u32 = 2;
pub(crate) const G: u32 = 3;

pub(crate) fn m() -> Expr {
    Expr::Param(ParamId(0))
}

pub(crate) fn i() -> Expr {
    Expr::Loop(LoopId(0))
}

/// A transfer of `x` to the next rank along `local`.
pub(crate) fn transfer(wrap: bool) -> StepKind {
    StepKind::Transfer(Transfer {
        from: Region::all(BufferId(X)),
        peer: Peer::Shift(vec![hop(1, 1, wrap)]),
        to: Region::all(BufferId(Y)),
        among: CommunicatorId(1),
        place: place(0, &[]),
    })
}

pub(crate) fn compute() -> StepKind {
    StepKind::Compute(Compute {
        name: "work".to_owned(),
        arguments: vec![Expr::Rank],
        reads: vec![Region::all(BufferId(G))],
        writes: vec![Region { next: true, ..part(U, 0, m()) }],
        computes: Vec::new(),
        place: place(1, &[0]),
    })
}

pub(crate) fn repeat(from: impl Into<Expr>, to: impl Into<Expr>, body: Vec<Step>) -> StepKind {
    StepKind::Loop(Loop {
        counter: LoopId(0),
        from: from.into(),
        to: to.into(),
        powers: None,
        reverse: false,
        body,
    })
}

/// In a loop, a group of a transfer, and of messages on some ranks.
fn exchanges() -> StepKind {
    let group = vec![step(transfer(true), 37), step(guarded(), 38)];
    repeat(0, m(), vec![step(StepKind::Group(group), 36)])
}

fn guarded() -> StepKind {
    StepKind::When(When {
        condition: Condition::All(vec![Expr::Rank.lt(2), Condition::Not(Box::new(i().eq(0)))]),
        body: vec![
            step(
                StepKind::Send(Send {
                    from: Region { index: Some(i()), ..Region::all(BufferId(G)) },
                    peer: Peer::Rank(0.into()),
                    among: CommunicatorId(0),
                    place: place(0, &[]),
                }),
                39,
            ),
            step(
                StepKind::Receive(Receive {
                    to: Region::all(BufferId(Y)),
                    peer: Peer::Rank(0.into()),
                    among: CommunicatorId(0),
                    place: place(0, &[]),
                }),
                40,
            ),
        ],
    })
}

fn steps() -> Vec<Step> {
    let ring = || Peer::Shift(vec![hop(0, -1, true), hop(1, 1, false)]);
    vec![
        step(compute(), 30),
        step(
            StepKind::Collective(Collective {
                kind: CollectiveKind::Reduce(Reduction::Sum, 0.into()),
                send: Region::all(BufferId(X)),
                recv: Region::all(BufferId(Y)),
                among: CommunicatorId(0),
                place: place(0, &[1]),
            }),
            31,
        ),
        step(
            StepKind::Put(Put {
                from: part(U, 0, m() / 2),
                peer: ring(),
                to: part(U, m() / 2, m()),
                signal: Some(SignalId(0)),
                among: CommunicatorId(0),
                place: place(0, &[]),
            }),
            32,
        ),
        step(
            StepKind::Signal(Signal {
                signal: SignalId(1),
                peer: Peer::Rank((Expr::Rank + 1) % Expr::Size),
                among: CommunicatorId(0),
                place: place(0, &[]),
            }),
            33,
        ),
        step(
            StepKind::Wait(Wait {
                signals: vec![Awaited { signal: SignalId(0), peer: ring(), times: 1.into() }],
                among: CommunicatorId(0),
                place: place(0, &[]),
            }),
            34,
        ),
        step(exchanges(), 35),
        step(StepKind::Sequence(vec![step(compute(), 42), step(transfer(false), 43)]), 41),
    ]
}

/// A well-formed plan; whether it is right is another matter.
pub(crate) fn plan() -> Plan {
    Plan {
        name: "sample".to_owned(),
        files: vec!["sample.rs".to_owned()],
        axes: vec![
            Axis { name: "nodes".to_owned(), extent: Values::AtLeast(2), at: at(1) },
            Axis { name: "local".to_owned(), extent: Values::OneOf(vec![2, 4, 8]), at: at(2) },
        ],
        params: vec![
            Param { name: "m".to_owned(), values: Values::AtLeast(1), count: None, at: at(3) },
            Param {
                name: "sizes".to_owned(),
                values: Values::Range(0, 64),
                count: Some(m() + Expr::Extent(AxisId(0))),
                at: at(4),
            },
            Param { name: "k".to_owned(), values: Values::Exactly(3), count: None, at: at(5) },
        ],
        counts: vec![],
        promises: vec![Promise {
            around: vec![],
            condition: m().ge(4 * Expr::Param(ParamId(2))),
            at: at(6),
        }],
        communicators: vec![
            Communicator { name: "world".to_owned(), axes: vec![AxisId(0), AxisId(1)], at: at(10) },
            Communicator { name: "node".to_owned(), axes: vec![AxisId(1)], at: at(11) },
        ],
        buffers: vec![
            buffer("x", m(), Role::In, 20),
            buffer("y", m(), Role::Out, 21),
            Buffer { window: true, copies: 2, ..buffer("u", m(), Role::InOut, 22) },
            Buffer {
                element: ElementType::Generic("T".to_owned()),
                array: Some(Array { count: m(), index: LoopId(0) }),
                ..buffer("g", Expr::element(ParamId(1), i()), Role::Local, 23)
            },
        ],
        signals: vec![named("lo", 24), named("hi", 25)],
        streams: vec![named("net", 26), named("cmp", 27)],
        counters: vec![named("i", 28)],
        steps: steps(),
        launch: Launch::Captured,
        kernels: true,
        replayed: true,
        target: Version(2, 31, 0),
        order: Order::Implicit,
        covers: vec![Coverage { region: part(Y, 0, m()), at: at(50) }],
        claims: Vec::new(),
        computes: vec![Postcondition {
            kind: CollectiveKind::AllReduce(Reduction::Max),
            send: Region::all(BufferId(X)),
            recv: Region::all(BufferId(Y)),
            at: at(51),
        }],
        checks: Vec::new(),
    }
}
