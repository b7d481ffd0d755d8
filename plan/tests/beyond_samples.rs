//! Plans that are wrong at sizes that the first ones do not show: none of them is accepted.

#![allow(dead_code, unused_variables, reason = "the words of plans, used or not")]
use typed_nccl_plan::check::{check, check_at};
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
use Role::*;

/// Asks for all sizes a plan that is wrong at these: it must not be accepted. Counts those that were asked.
fn attack(out: &mut u32, name: &str, plan: Plan, extents: Vec<i64>, params: Vec<Vec<i64>>) {
    let text = format!("{extents:?} {params:?}");
    let sizes = Sizes { extents, params, text };
    if let Err(wrong) = check_at(&plan, &sizes) {
        *out += 1;
        assert!(
            check(&plan).is_err(),
            "{name}: accepted for all, and wrong at {}:\n{wrong}",
            sizes.text
        );
    }
}

/// A ring in which each sends before it receives: waits in a circle.
fn circle() -> Vec<Step> {
    vec![send(all(0), ring(1), on(0)), recv(all(1), ring(-1), on(0))]
}
fn two() -> Vec<Buffer> {
    vec![buffer("u", 4, In), buffer("v", 4, INOUT)]
}
const INOUT: Role = InOut;

#[test]
fn structure() {
    let mut o = 0;
    let o = &mut o;
    attack(
        o,
        "loop over n/64",
        plan(vec![least(2)], vec![], two(), vec![repeat(0, n() / 64, circle())]),
        vec![64],
        vec![],
    );
    attack(
        o,
        "loop over p/64",
        plan(vec![exactly(4)], vec![least(1)], two(), vec![repeat(0, p() / 64, circle())]),
        vec![4],
        vec![vec![64]],
    );
    attack(
        o,
        "loop to p-40",
        plan(vec![exactly(4)], vec![least(1)], two(), vec![repeat(0, p() - 40, circle())]),
        vec![4],
        vec![vec![64]],
    );
    attack(
        o,
        "distance p/16",
        plan(
            vec![exactly(8)],
            vec![least(1)],
            two(),
            vec![group(vec![
                send(all(0), ring(p() / 16 + 1), on(0)),
                recv(all(1), ring(-1), on(0)),
            ])],
        ),
        vec![8],
        vec![vec![16]],
    );
    attack(
        o,
        "distance p/16 open n",
        plan(
            vec![least(2)],
            vec![least(1)],
            two(),
            vec![group(vec![
                send(all(0), ring(p() / 16 + 1), on(0)),
                recv(all(1), ring(-1), on(0)),
            ])],
        ),
        vec![8],
        vec![vec![100]],
    );
    attack(
        o,
        "distance n/64",
        plan(
            vec![least(2)],
            vec![],
            two(),
            vec![group(vec![
                send(all(0), ring(n() / 64 + 1), on(0)),
                recv(all(1), ring(-1), on(0)),
            ])],
        ),
        vec![64],
        vec![],
    );
    attack(
        o,
        "distance n/64 line",
        plan(
            vec![least(2)],
            vec![],
            two(),
            vec![group(vec![
                send(all(0), line(n() / 64 + 1), on(0)),
                recv(all(1), line(-1), on(0)),
            ])],
        ),
        vec![64],
        vec![],
    );
    attack(
        o,
        "times p/64",
        plan(
            vec![exactly(4)],
            vec![least(1)],
            vec![],
            vec![signal(0, ring(1), on(0)), wait(0, ring(-1), p() / 64 + 1, on(1))],
        ),
        vec![4],
        vec![vec![64]],
    );
    attack(
        o,
        "times n/64",
        plan(
            vec![least(2)],
            vec![],
            vec![],
            vec![signal(0, ring(1), on(0)), wait(0, ring(-1), n() / 64 + 1, on(1))],
        ),
        vec![64],
        vec![],
    );
    attack(
        o,
        "root p/64*9",
        plan(
            vec![exactly(4)],
            vec![least(1)],
            two(),
            vec![collective(CollectiveKind::Broadcast(p() / 64 * int(9)), all(0), all(1), on(0))],
        ),
        vec![4],
        vec![vec![64]],
    );
    attack(
        o,
        "root n/64*n",
        plan(
            vec![least(2)],
            vec![],
            two(),
            vec![collective(CollectiveKind::Broadcast(n() / 64 * n()), all(0), all(1), on(0))],
        ),
        vec![64],
        vec![],
    );
    // Lists.
    let mut l = plan(
        vec![exactly(4)],
        vec![Values::OneOf(vec![0, 1])],
        two(),
        vec![when(Expr::Element(ParamId(0), Box::new(int(0))).eq(1), circle())],
    );
    l.params[0].count = Some(int(2));
    attack(o, "list elements", l, vec![4], vec![vec![1, 0]]);
    let mut l = plan(
        vec![least(2)],
        vec![Values::OneOf(vec![0, 1])],
        two(),
        vec![when(Expr::Element(ParamId(0), Box::new(int(0))).eq(1), circle())],
    );
    l.params[0].count = Some(int(2));
    attack(o, "list elements, n", l, vec![4], vec![vec![1, 0]]);
    let mut l = plan(
        vec![exactly(4)],
        vec![Values::OneOf(vec![0, 1])],
        two(),
        vec![repeat(0, Expr::Element(ParamId(0), Box::new(int(0))), circle())],
    );
    l.params[0].count = Some(int(2));
    attack(o, "list loop", l, vec![4], vec![vec![1, 0]]);
    // Promises.
    attack(
        o,
        "promise n%7==2",
        promise(
            plan(
                vec![least(1)],
                vec![],
                two(),
                vec![group(vec![send(all(0), ring(1), on(0)), recv(all(1), ring(1), on(0))])],
            ),
            (n() % 7).eq(2),
        ),
        vec![9],
        vec![],
    );
    attack(
        o,
        "promise n==2 or n>=50",
        promise(
            plan(
                vec![least(1)],
                vec![],
                two(),
                vec![group(vec![send(all(0), ring(1), on(0)), recv(all(1), ring(1), on(0))])],
            ),
            Condition::Any(vec![n().eq(2), n().ge(50)]),
        ),
        vec![50],
        vec![],
    );
    attack(
        o,
        "promise p==1 or p>=5000, lists",
        promise(
            plan(
                vec![exactly(2)],
                vec![least(1)],
                vec![buffer("u", p(), In), buffer("v", p(), InOut)],
                vec![group(vec![
                    send(all(0), ring(1), on(0)),
                    recv(part(1, 0, p() - p() / 100), ring(1), on(0)),
                ])],
            ),
            Condition::Any(vec![p().eq(1), p().ge(5000)]),
        ),
        vec![2],
        vec![vec![5000]],
    );
    // Ranges.
    attack(
        o,
        "range 17..100, hop 17",
        plan(
            vec![Values::Range(17, 100)],
            vec![],
            vec![window("u", 4, In), window("v", 4, InOut)],
            vec![
                compute(vec![all(1)], vec![], on(0)),
                put(all(0), ring(17), all(1), 0, on(0)),
                wait(0, ring(-17), 1, on(0)),
            ],
        ),
        vec![20],
        vec![],
    );
    // Guards on compute steps.
    let mesh = || vec![exactly(2), least(1)];
    let y = || Expr::Coordinate(AxisId(1));
    let exchange = || {
        vec![
            send(all(0), hop(0, 1, true), on(0)),
            compute(vec![all(2)], vec![all(2)], on(0)),
            when(y().ge(100), vec![compute(vec![all(2)], vec![all(2)], on(1))]),
            recv(all(1), hop(0, 1, true), on(1)),
        ]
    };
    let mut b = two();
    b.push(buffer("w", 4, InOut));
    attack(
        o,
        "order by guarded compute",
        plan(mesh(), vec![], b.clone(), exchange()),
        vec![2, 101],
        vec![],
    );
    attack(
        o,
        "guarded write then read",
        plan(
            vec![least(2)],
            vec![],
            vec![buffer("s", 4, scratch())],
            vec![
                when(r().lt(100), vec![compute(vec![], vec![all(0)], on(0))]),
                compute(vec![all(0)], vec![], on(0)),
            ],
        ),
        vec![101],
        vec![],
    );
    let race = |cond: Condition| {
        vec![
            signal(1, ring(-1), on(0)),
            wait(1, ring(1), 1, on(0)),
            put(all(0), ring(1), all(1), 0, on(0)),
            when(cond, vec![compute(vec![all(1)], vec![], on(1))]),
            wait(0, ring(-1), 1, on(0)),
            compute(vec![all(1)], vec![], on(0)),
        ]
    };
    let wb = || vec![window("u", 4, In), window("v", 4, InOut)];
    attack(
        o,
        "guarded read r==3, n>=10",
        plan(vec![least(10)], vec![], wb(), race(r().eq(3))),
        vec![10],
        vec![],
    );
    attack(
        o,
        "guarded read r==100",
        plan(vec![least(1)], vec![], wb(), race(r().eq(100))),
        vec![101],
        vec![],
    );
    // Root in the middle.
    attack(
        o,
        "root n/2",
        plan(
            vec![least(10)],
            vec![],
            {
                let mut b = wb();
                b.extend(vec![buffer("c", 4, In), buffer("d", 4, InOut)]);
                b
            },
            vec![
                compute(vec![all(1)], vec![all(2 + 1)], on(0)),
                collective(CollectiveKind::Broadcast(n() / 2), all(2), all(3), on(0)),
                put(all(0), ring(1), all(1), 0, on(0)),
                wait(0, ring(-1), 1, on(0)),
            ],
        ),
        vec![20],
        vec![],
    );
    attack(
        o,
        "root 5",
        plan(
            vec![least(10)],
            vec![],
            {
                let mut b = wb();
                b.extend(vec![buffer("c", 4, In), buffer("d", 4, InOut)]);
                b
            },
            vec![
                compute(vec![all(1)], vec![all(2 + 1)], on(0)),
                collective(CollectiveKind::Broadcast(int(5)), all(2), all(3), on(0)),
                put(all(0), ring(1), all(1), 0, on(0)),
                wait(0, ring(-1), 1, on(0)),
            ],
        ),
        vec![20],
        vec![],
    );
    assert!(*o >= 24, "only {o} were wrong at all");
}
fn scratch() -> Role {
    Local
}

#[test]
fn memory() {
    let mut o = 0;
    let o = &mut o;
    // Arrays.
    attack(
        o,
        "array: 8 written, p read",
        plan(
            vec![exactly(2)],
            vec![least(1)],
            vec![array("s", p() + 8, 4, Local)],
            vec![
                repeat(0, 8, vec![compute(vec![], vec![at(0, i())], on(0))]),
                repeat(0, p(), vec![compute(vec![at(0, i())], vec![], on(0))]),
            ],
        ),
        vec![2],
        vec![vec![9]],
    );
    attack(
        o,
        "array: 40 written, n read",
        plan(
            vec![least(1)],
            vec![],
            vec![array("s", n() + 40, 4, Local)],
            vec![
                repeat(0, 40, vec![compute(vec![], vec![at(0, i())], on(0))]),
                repeat(0, n(), vec![compute(vec![at(0, i())], vec![], on(0))]),
            ],
        ),
        vec![41],
        vec![],
    );
    attack(
        o,
        "array: alias i%8 in group",
        plan(
            vec![exactly(2)],
            vec![least(1)],
            vec![buffer("u", 4, In), array("s", p() + 8, 4, InOut)],
            vec![group(vec![repeat(
                0,
                p(),
                vec![transfer(all(0), ring(1), at(1, i() % 8), on(0))],
            )])],
        ),
        vec![2],
        vec![vec![9]],
    );
    attack(
        o,
        "array: lengths i/8",
        plan(
            vec![exactly(2)],
            vec![least(1)],
            vec![array("u", p(), 4 + Expr::Loop(LoopId(1)) / 8, In), buffer("v", 4, InOut)],
            vec![repeat(0, p(), vec![transfer(at(0, i()), ring(1), all(1), on(0))])],
        ),
        vec![2],
        vec![vec![9]],
    );
    attack(
        o,
        "array index fixed 5 < count, count by p",
        plan(
            vec![exactly(2)],
            vec![least(1)],
            vec![array("u", int(70) - p(), 4, InOut)],
            vec![compute(vec![at(0, int(5))], vec![], on(0))],
        ),
        vec![2],
        vec![vec![66]],
    );
    // Local view.
    let pl = |body| {
        plan(
            vec![exactly(2)],
            vec![least(1)],
            vec![buffer("u", p(), In), buffer("v", p(), InOut)],
            body,
        )
    };
    attack(
        o,
        "local lengths p/64",
        pl(vec![group(vec![
            send(all(0), ring(1), on(0)),
            recv(part(1, 0, p() - p() / 64), ring(-1), on(0)),
        ])]),
        vec![2],
        vec![vec![64]],
    );
    let pn = |body| {
        plan(vec![least(2)], vec![], vec![buffer("u", n(), In), buffer("v", n(), InOut)], body)
    };
    attack(
        o,
        "local lengths n/64",
        pn(vec![group(vec![
            send(all(0), ring(1), on(0)),
            recv(part(1, 0, n() - n() / 64), ring(-1), on(0)),
        ])]),
        vec![64],
        vec![],
    );
    attack(
        o,
        "local lengths r/64",
        plan(
            vec![least(2)],
            vec![],
            vec![buffer("u", n() * 2, In), buffer("v", n() * 2, InOut)],
            vec![group(vec![
                send(part(0, r(), r() + 1), ring(1), on(0)),
                recv(part(1, r(), r() + 1 + r() / 64), ring(-1), on(0)),
            ])],
        ),
        vec![70],
        vec![],
    );
    // Coverage.
    let mut c =
        pl(vec![transfer(part(0, 0, p() - p() / 64), ring(1), part(1, 0, p() - p() / 64), on(0))]);
    c.covers.push(Coverage { region: all(1), at: Location::default() });
    attack(o, "coverage p/64", c, vec![2], vec![vec![64]]);
    let mut c = plan(
        vec![least(2)],
        vec![],
        vec![buffer("u", 2000, In), buffer("v", 2000, InOut)],
        vec![
            repeat(0, n() / 64, vec![transfer(all(0), ring(1), all(1), on(0))]),
            transfer(all(0), ring(1), all(1), on(0)),
        ],
    );
    c.covers.push(Coverage { region: all(1), at: Location::default() });
    attack(o, "coverage loop n/64", c, vec![64], vec![]);
    // Read before a later write.
    let sc = |body| plan(vec![exactly(2)], vec![least(1)], vec![buffer("s", p(), Local)], body);
    attack(
        o,
        "later write",
        sc(vec![
            compute(vec![], vec![part(0, 0, p() - p() / 64)], on(0)),
            compute(vec![part(0, 0, p())], vec![], on(0)),
            compute(vec![], vec![part(0, 0, p())], on(0)),
        ]),
        vec![2],
        vec![vec![64]],
    );
    attack(
        o,
        "later whole write",
        sc(vec![
            compute(vec![], vec![part(0, 0, p() - p() / 64)], on(0)),
            compute(vec![part(0, 0, p())], vec![], on(0)),
            compute(vec![], vec![all(0)], on(0)),
        ]),
        vec![2],
        vec![vec![64]],
    );
    attack(
        o,
        "later write, whole read",
        sc(vec![
            compute(vec![], vec![part(0, 0, p() - p() / 64)], on(0)),
            compute(vec![all(0)], vec![], on(0)),
            compute(vec![], vec![all(0)], on(0)),
        ]),
        vec![2],
        vec![vec![64]],
    );
    attack(
        o,
        "partly written, whole read",
        sc(vec![
            compute(vec![], vec![part(0, 0, p() - p() / 64)], on(0)),
            compute(vec![all(0)], vec![], on(0)),
        ]),
        vec![2],
        vec![vec![64]],
    );
    attack(
        o,
        "own write",
        sc(vec![
            compute(vec![], vec![part(0, 0, p() - p() / 64)], on(0)),
            compute(vec![part(0, 0, p())], vec![part(0, 0, p())], on(0)),
        ]),
        vec![2],
        vec![vec![64]],
    );
    attack(
        o,
        "write of other copy",
        {
            let mut x = sc(vec![
                compute(vec![], vec![part(0, 0, p() - p() / 64)], on(0)),
                compute(vec![], vec![Region { next: true, ..part(0, 0, p()) }], on(0)),
                compute(vec![part(0, 0, p())], vec![], on(0)),
            ]);
            x.buffers[0].copies = 2;
            x
        },
        vec![2],
        vec![vec![64]],
    );
    attack(
        o,
        "guarded write, rank",
        plan(
            vec![exactly(200)],
            vec![least(1)],
            vec![buffer("s", p(), Local)],
            vec![
                when(r().lt(100), vec![compute(vec![], vec![part(0, 0, p())], on(0))]),
                when(r().ge(100), vec![compute(vec![], vec![part(0, 0, p() - p() / 64)], on(0))]),
                compute(vec![part(0, 0, p())], vec![], on(0)),
            ],
        ),
        vec![200],
        vec![vec![64]],
    );
    // In loops: only one iteration writes.
    attack(
        o,
        "loop of no iterations writes",
        sc(vec![
            repeat(0, int(4) - p(), vec![compute(vec![], vec![part(0, 0, p())], on(0))]),
            compute(vec![], vec![part(0, 0, p() - p() / 64)], on(0)),
            compute(vec![part(0, 0, p())], vec![], on(0)),
        ]),
        vec![2],
        vec![vec![64]],
    );
    // Put without wait writes.
    attack(
        o,
        "scale with loops p/8",
        {
            plan(
                vec![exactly(2)],
                vec![least(1)],
                vec![buffer("u", p(), In), buffer("v", p(), Out)],
                vec![
                    collective(CollectiveKind::AllReduce(Reduction::Sum), all(0), all(1), on(0)),
                    repeat(
                        0,
                        p() / 64,
                        vec![collective(
                            CollectiveKind::AllReduce(Reduction::Sum),
                            all(1),
                            all(1),
                            on(0),
                        )],
                    ),
                ],
            )
        },
        vec![2],
        vec![vec![64]],
    );
    attack(
        o,
        "scale with divided",
        {
            let mut x = promise(
                plan(
                    vec![exactly(2)],
                    vec![least(1)],
                    vec![buffer("u", p(), In), buffer("v", p(), Out)],
                    vec![
                        collective(
                            CollectiveKind::AllReduce(Reduction::Sum),
                            all(0),
                            all(1),
                            on(0),
                        ),
                        collective(
                            CollectiveKind::AllReduce(Reduction::Sum),
                            part(1, 0, p() / 100 * int(100) / 100),
                            part(1, 0, p() / 100 * int(100) / 100),
                            on(0),
                        ),
                    ],
                ),
                int(1).eq(1),
            );
            x.computes.push(Postcondition {
                kind: CollectiveKind::AllReduce(Reduction::Sum),
                send: all(0),
                recv: all(1),
                at: Location::default(),
            });
            x
        },
        vec![2],
        vec![vec![100]],
    );
    attack(
        o,
        "output becomes empty",
        plan(
            vec![exactly(2)],
            vec![least(1)],
            vec![buffer("u", 4, In), buffer("v", p(), Out)],
            vec![repeat(0, int(70) - p(), vec![compute(vec![all(0)], vec![all(1)], on(0))])],
        ),
        vec![2],
        vec![vec![70]],
    );
    // In flight through a loop: the seventh signal.
    let wb = || vec![window("u", 4, In), window("v", 4, InOut)];
    let flight = |bound: Expr| {
        vec![
            wait(0, ring(-1), 6, on(0)),
            compute(vec![all(1)], vec![], on(2)),
            repeat(0, bound.clone(), vec![signal(0, ring(1), on(1)), wait(0, ring(-1), 1, on(0))]),
            repeat(0, 5, vec![signal(0, ring(1), on(1))]),
            put(all(0), ring(1), all(1), 0, on(1)),
        ]
    };
    attack(
        o,
        "in flight p",
        plan(vec![exactly(2)], vec![least(0)], wb(), flight(p())),
        vec![2],
        vec![vec![6]],
    );
    attack(
        o,
        "prefix waits, p",
        plan(
            vec![exactly(2)],
            vec![least(0)],
            wb(),
            vec![
                wait(0, ring(-1), 6, on(0)),
                compute(vec![all(1)], vec![], on(0)),
                repeat(0, p(), vec![signal(0, ring(1), on(1)), wait(0, ring(-1), 1, on(0))]),
                repeat(0, 5, vec![signal(0, ring(1), on(1))]),
                put(all(0), ring(1), all(1), 0, on(1)),
            ],
        ),
        vec![2],
        vec![vec![9]],
    );
    // Messages in flight: the receives of the loop are of another length from the seventh iteration on.
    let bufs = || vec![buffer("u", 4, In), buffer("v", 4, InOut), buffer("w", 4, InOut)];
    attack(
        o,
        "messages in flight deadlock",
        plan(
            vec![exactly(2)],
            vec![least(0)],
            bufs(),
            vec![
                repeat(0, 6, vec![send(all(0), ring(1), on(1))]),
                repeat(0, p(), vec![recv(all(1), ring(1), on(0)), send(all(0), ring(1), on(0))]),
                repeat(0, 6, vec![recv(all(1), ring(1), on(1))]),
            ],
        ),
        vec![2],
        vec![vec![9]],
    );
    assert!(*o >= 15, "only {o} were wrong at all");
}

#[test]
fn more() {
    let mut o = 0;
    let o = &mut o;
    let w2 = |step_: Step| {
        let mut s = step_;
        match &mut s.kind {
            StepKind::Send(x) => x.among = CommunicatorId(1),
            StepKind::Receive(x) => x.among = CommunicatorId(1),
            StepKind::Collective(x) => x.among = CommunicatorId(1),
            _ => {}
        }
        s
    };
    let with2 = |mut x: Plan, implicit: bool| {
        let mut c = x.communicators[0].clone();
        c.name = "second".into();
        x.communicators.push(c);
        if implicit {
            x.order = Order::Implicit;
        }
        x
    };
    let x = || Expr::Coordinate(AxisId(0));
    let y = || Expr::Coordinate(AxisId(1));
    let bufs = || {
        vec![
            buffer("u", 4, In),
            buffer("v", 4, InOut),
            buffer("w", 4, InOut),
            buffer("t", 4, InOut),
        ]
    };
    let guard = |c: Condition| when(c, vec![compute(vec![], vec![], after(1, 0))]);
    attack(
        o,
        "deadlock by guarded compute y>=100",
        with2(
            plan(
                vec![exactly(2), least(1)],
                vec![],
                bufs(),
                vec![
                    when(
                        x().eq(0),
                        vec![
                            send(all(0), hop(0, 1, true), on(0)),
                            guard(y().ge(100)),
                            w2(recv(all(1), hop(0, 1, true), on(1))),
                        ],
                    ),
                    when(
                        x().eq(1),
                        vec![
                            w2(send(all(0), hop(0, 1, true), on(0))),
                            guard(y().ge(100)),
                            recv(all(1), hop(0, 1, true), on(1)),
                        ],
                    ),
                ],
            ),
            true,
        ),
        vec![2, 101],
        vec![],
    );
    attack(
        o,
        "A7 by guarded compute r<100",
        with2(
            plan(
                vec![least(1)],
                vec![],
                bufs(),
                vec![
                    collective(CollectiveKind::AllReduce(Reduction::Sum), all(0), all(1), on(0)),
                    guard(r().lt(100)),
                    w2(collective(
                        CollectiveKind::AllReduce(Reduction::Sum),
                        all(0),
                        all(2),
                        on(1),
                    )),
                ],
            ),
            false,
        ),
        vec![101],
        vec![],
    );
    attack(
        o,
        "A7 by loop 64/(n)",
        with2(
            plan(
                vec![least(1)],
                vec![],
                bufs(),
                vec![
                    collective(CollectiveKind::AllReduce(Reduction::Sum), all(0), all(1), on(0)),
                    repeat(0, int(64) - n(), vec![compute(vec![], vec![], after(1, 0))]),
                    w2(collective(
                        CollectiveKind::AllReduce(Reduction::Sum),
                        all(0),
                        all(2),
                        on(1),
                    )),
                ],
            ),
            false,
        ),
        vec![64],
        vec![],
    );
    let wb = || vec![window("u", 4, In), window("v", 4, InOut)];
    attack(
        o,
        "in flight through a loop",
        plan(
            vec![exactly(2)],
            vec![least(0)],
            wb(),
            vec![
                when(
                    r().eq(1),
                    vec![wait(0, ring(-1), 6, on(0)), compute(vec![all(1)], vec![], on(0))],
                ),
                repeat(
                    0,
                    p(),
                    vec![
                        when(r().eq(0), vec![signal(0, ring(1), on(0))]),
                        when(r().eq(1), vec![wait(0, ring(-1), 1, on(0))]),
                    ],
                ),
                when(
                    r().eq(0),
                    vec![
                        put(all(0), ring(1), all(1), 0, on(0)),
                        repeat(0, 5, vec![signal(0, ring(1), on(0))]),
                    ],
                ),
            ],
        ),
        vec![2],
        vec![vec![6]],
    );
    attack(
        o,
        "messages in flight through a loop",
        plan(
            vec![exactly(2)],
            vec![least(0)],
            vec![buffer("u", 4, In), buffer("v", 4, InOut)],
            vec![
                when(r().eq(1), vec![repeat(0, 6, vec![recv(all(1), ring(-1), on(0))])]),
                when(r().eq(0), vec![]),
                repeat(
                    0,
                    p(),
                    vec![
                        when(r().eq(0), vec![send(all(0), ring(1), on(0))]),
                        when(r().eq(1), vec![recv(all(1), ring(-1), on(0))]),
                    ],
                ),
                when(
                    r().eq(0),
                    vec![
                        repeat(0, 6, vec![send(all(0), ring(1), on(0))]),
                        recv(all(1), ring(1), on(0)),
                    ],
                ),
                when(r().eq(1), vec![send(all(0), ring(1), on(0))]),
            ],
        ),
        vec![2],
        vec![vec![9]],
    );
    attack(
        o,
        "range 34..100, hop 17",
        plan(
            vec![Values::Range(34, 100)],
            vec![],
            vec![window("u", 4, In), window("v", 4, InOut)],
            vec![put(all(0), ring(17), all(1), 0, on(0)), wait(0, ring(17), 1, on(0))],
        ),
        vec![35],
        vec![],
    );
    // Quantities by a listed axis and a large one.
    attack(
        o,
        "root in comm of large axis by p listed",
        plan(
            vec![least(4)],
            vec![Values::Range(0, 63)],
            bufs(),
            vec![collective(CollectiveKind::Broadcast(p() / 4), all(0), all(1), on(0))],
        ),
        vec![4],
        vec![vec![63]],
    );
    attack(
        o,
        "samples: too many params, first four",
        plan(
            vec![exactly(2)],
            vec![Values::Range(1, 64), Values::Range(1, 64), Values::Range(1, 64)],
            bufs(),
            vec![repeat(0, p() / 64, circle())],
        ),
        vec![2],
        vec![vec![64], vec![1], vec![1]],
    );
    attack(
        o,
        "samples: too many axes and a param",
        plan(
            vec![Values::Range(1, 64), Values::Range(1, 64)],
            vec![Values::Range(1, 64)],
            bufs(),
            vec![repeat(
                0,
                p() / 64,
                vec![send(all(0), hop(0, 1, true), on(0)), recv(all(1), hop(0, -1, true), on(0))],
            )],
        ),
        vec![2, 1],
        vec![vec![64]],
    );
    attack(
        o,
        "guarded wait of large rank count",
        plan(
            vec![least(2)],
            vec![],
            vec![buffer("u", n(), In), buffer("v", n(), InOut)],
            vec![
                transfer(part(0, 0, n()), ring(1), part(1, 0, n()), on(0)),
                compute(vec![], vec![all(1)], on(0)),
            ],
        ),
        vec![2],
        vec![],
    );
    attack(
        o,
        "arguments divide by zero",
        {
            let mut x = plan(vec![least(1)], vec![], bufs(), vec![compute(vec![], vec![], on(0))]);
            if let StepKind::Compute(c) = &mut x.steps[0].kind {
                c.arguments.push(int(1) / (n() - 50));
            }
            x
        },
        vec![50],
        vec![],
    );
    attack(
        o,
        "guard divides by zero, rank",
        plan(
            vec![least(1)],
            vec![],
            bufs(),
            vec![when((int(1) / (r() - 50)).lt(5), vec![compute(vec![], vec![], on(0))])],
        ),
        vec![51],
        vec![],
    );
    attack(
        o,
        "whole array bounds in compute of range",
        plan(
            vec![exactly(2)],
            vec![least(1)],
            vec![array("s", 3, Expr::Loop(LoopId(1)) + 1, InOut)],
            vec![compute(vec![part(0, 0, 1)], vec![], on(0))],
        ),
        vec![2],
        vec![vec![1]],
    );
    attack(
        o,
        "whole array, range by p",
        plan(
            vec![exactly(2)],
            vec![least(1)],
            vec![array("s", p(), 70, InOut)],
            vec![compute(vec![part(0, 0, p())], vec![], on(0))],
        ),
        vec![2],
        vec![vec![71]],
    );
    // A15: an array index by p, and the buffer of a receive.
    attack(
        o,
        "array in scope: read s[i], write s[0..] by n listed",
        plan(
            vec![exactly(2)],
            vec![Values::AtLeast(1)],
            vec![array("s", p() + 4, 4, Local)],
            vec![
                repeat(0, 4, vec![compute(vec![], vec![at(0, i())], on(0))]),
                compute(vec![at(0, p() / 64 + p() / 64 + p() / 64 + p() / 64)], vec![], on(0)),
            ],
        ),
        vec![2],
        vec![vec![64]],
    );
    attack(
        o,
        "collective sub, different lengths by coordinate",
        plan(
            vec![least(1)],
            vec![],
            vec![buffer("u", n() + 1, In), buffer("v", n() + 1, InOut)],
            vec![collective(
                CollectiveKind::AllReduce(Reduction::Sum),
                part(0, 0, int(1) + r() / 64),
                part(1, 0, int(1) + r() / 64),
                on(0),
            )],
        ),
        vec![65],
        vec![],
    );
    attack(
        o,
        "group alias of two kinds at r%65",
        plan(
            vec![least(70)],
            vec![],
            vec![buffer("u", 70, InOut)],
            vec![group(vec![
                transfer(
                    part(0, 0, 1),
                    ring(1),
                    part(0, int(1) + r() % 65, int(2) + r() % 65),
                    on(0),
                ),
                transfer(part(0, 65, 66), ring(2), part(0, 66, 67), on(0)),
            ])],
        ),
        vec![70],
        vec![],
    );
    assert!(*o >= 6, "only {o} were wrong at all");
}

/// A plan that is wrong at these sizes, and not accepted for all.
fn refused(plan: &Plan, extents: Vec<i64>, params: Vec<Vec<i64>>) {
    assert!(plan.validate().is_empty(), "no plan");
    let sizes = Sizes { extents, params, text: String::new() };
    assert!(check_at(plan, &sizes).is_err(), "right at these sizes");
    assert!(check(plan).is_err(), "accepted for all sizes");
}

fn of_scratch(body: Vec<Step>) -> Plan {
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
    refused(&of_scratch(steps), vec![2], vec![vec![64]]);
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
