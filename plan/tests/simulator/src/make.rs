//! Short words for making plans: what tests and the generator write them with.
//!
//! Steps are made on the first stream and the first communicator; [`on`] and [`via`] say otherwise.

use typed_nccl_plan::ir::{
    Assign, Awaited, Axis, AxisId, Buffer, BufferId, Cases, Choice, Collective, CollectiveKind,
    Communicator, CommunicatorId, Compute, Condition, ElementType, Equation, Expr, Hop, Launch,
    Location, Loop, LoopId, Named, Order, Peer, Place, Plan, Put, Receive, Reduction, Region, Role,
    Send, Signal, SignalId, Source, Step, StepKind, StreamId, Subexpr, Transfer, Values, Version,
    Wait, When,
};
use typed_nccl_plan::verdict::Sizes;

/// A plan of one axis, one communicator, one stream and nothing else; it is not replayed.
pub fn plan(ranks: Values) -> Plan {
    Plan {
        name: "made".to_owned(),
        files: Vec::new(),
        axes: vec![Axis { name: "n".to_owned(), extent: ranks, at: Location::default() }],
        params: Vec::new(),
        counts: Vec::new(),
        promises: Vec::new(),
        communicators: vec![communicator("world", &[0])],
        buffers: Vec::new(),
        signals: Vec::new(),
        streams: vec![named("s0")],
        counters: Vec::new(),
        steps: Vec::new(),
        launch: Launch::Eager,
        kernels: true,
        replayed: false,
        target: Version::default(),
        order: Order::Declared,
        covers: Vec::new(),
        computes: Vec::new(),
        claims: Vec::new(),
        checks: Vec::new(),
    }
}

/// Sizes of a plan, with their text.
pub fn sizes(plan: &Plan, extents: &[i64], params: &[Vec<i64>]) -> Sizes {
    let axes = plan.axes.iter().map(|axis| &axis.name).zip(extents);
    let mut text: Vec<String> = axes.map(|(name, extent)| format!("{name} = {extent}")).collect();
    for (param, values) in plan.params.iter().zip(params) {
        match (&param.count, &values[..]) {
            (None, [value]) => text.push(format!("{} = {value}", param.name)),
            _ => text.push(format!("{} = {values:?}", param.name)),
        }
    }
    Sizes { extents: extents.to_vec(), params: params.to_vec(), text: text.join(", ") }
}

/// A name.
pub fn named(name: &str) -> Named {
    Named { name: name.to_owned(), at: Location::default() }
}

/// A communicator along these axes.
pub fn communicator(name: &str, axes: &[u32]) -> Communicator {
    let axes = axes.iter().map(|&axis| AxisId(axis)).collect();
    Communicator { name: name.to_owned(), axes, at: Location::default() }
}

/// A buffer of `f32`.
pub fn buffer(name: &str, role: Role, len: impl Into<Expr>) -> Buffer {
    Buffer {
        name: name.to_owned(),
        element: ElementType::F32,
        len: len.into(),
        array: None,
        role,
        window: false,
        copies: 1,
        at: Location::default(),
    }
}

/// A buffer that is a window.
pub fn window(name: &str, role: Role, len: impl Into<Expr>) -> Buffer {
    Buffer { window: true, ..buffer(name, role, len) }
}

/// All of a buffer.
pub fn all(buffer: u32) -> Region {
    Region::all(BufferId(buffer))
}

/// Subexpr of a buffer.
pub fn part(buffer: u32, from: impl Into<Expr>, to: impl Into<Expr>) -> Region {
    Region { range: Some((from.into(), to.into())), ..all(buffer) }
}

/// The same region in the other copy.
pub fn next(region: Region) -> Region {
    Region { next: true, ..region }
}

/// The rank that many places further round the first axis.
pub fn ring(by: impl Into<Expr>) -> Peer {
    hop(0, by, true)
}

/// The rank that many places further along the first axis, if there is one.
pub fn chain(by: impl Into<Expr>) -> Peer {
    hop(0, by, false)
}

/// The rank that many places further along an axis.
pub fn hop(axis: u32, by: impl Into<Expr>, wrap: bool) -> Peer {
    Peer::Shift(vec![Hop { axis: AxisId(axis), by: by.into(), wrap }])
}

/// One rank where a condition holds, another one elsewhere.
pub fn either(condition: Condition, then: Peer, otherwise: Peer) -> Peer {
    Peer::Cases(Box::new(Cases { condition, then, otherwise }))
}

/// The rank of that number.
pub fn rank(number: impl Into<Expr>) -> Peer {
    Peer::Rank(number.into())
}

/// A statement.
pub fn step(kind: StepKind) -> Step {
    Step { kind, at: Location::default() }
}

const AMONG: CommunicatorId = CommunicatorId(0);

fn place() -> Place {
    Place { on: StreamId(0), after: Vec::new() }
}

/// A message in the global view.
pub fn transfer(from: Region, peer: Peer, to: Region) -> Step {
    step(StepKind::Transfer(Transfer { from, peer, to, among: AMONG, place: place() }))
}

/// A sending half.
pub fn send(from: Region, peer: Peer) -> Step {
    step(StepKind::Send(Send { from, peer, among: AMONG, place: place() }))
}

/// A receiving half.
pub fn receive(to: Region, peer: Peer) -> Step {
    step(StepKind::Receive(Receive { to, peer, among: AMONG, place: place() }))
}

/// A put, with a signal or without.
pub fn put(from: Region, peer: Peer, to: Region, signal: Option<u32>) -> Step {
    let signal = signal.map(SignalId);
    step(StepKind::Put(Put { from, peer, to, signal, among: AMONG, place: place() }))
}

/// A signal.
pub fn raise(signal: u32, peer: Peer) -> Step {
    step(StepKind::Signal(Signal { signal: SignalId(signal), peer, among: AMONG, place: place() }))
}

/// A wait for signals: which, of whom, how many times.
pub fn wait(signals: Vec<(u32, Peer, i64)>) -> Step {
    let one = |(signal, peer, times): (u32, Peer, i64)| Awaited {
        signal: SignalId(signal),
        peer,
        times: times.into(),
    };
    let signals = signals.into_iter().map(one).collect();
    step(StepKind::Wait(Wait { signals, among: AMONG, place: place() }))
}

/// A collective.
pub fn collective(kind: CollectiveKind, send: Region, recv: Region) -> Step {
    step(StepKind::Collective(Collective { kind, send, recv, among: AMONG, place: place() }))
}

/// A compute step.
pub fn compute(name: &str, reads: Vec<Region>, writes: Vec<Region>) -> Step {
    let name = name.to_owned();
    step(StepKind::Compute(Compute {
        name,
        arguments: Vec::new(),
        reads,
        writes,
        computes: Vec::new(),
        place: place(),
    }))
}

/// The compute step that leaves, in the first region that it writes, these of those that it reads,
/// reduced.
pub fn computes(mut step: Step, by: Reduction, of: &[u32]) -> Step {
    if let StepKind::Compute(compute) = &mut step.kind {
        compute.computes.push(Equation { to: 0, by, of: of.to_vec() });
    }
    step
}

/// Local work: a region becomes these, reduced.
pub fn assign(to: Region, by: Reduction, of: Vec<Region>) -> Step {
    let of = of.into_iter().map(Source::own).collect();
    step(StepKind::Assign(Assign { to, by, of, place: place() }))
}

/// The same, of regions of ranks.
pub fn gathered(to: Region, by: Reduction, of: Vec<(Region, Peer)>) -> Step {
    let source = |(region, rank)| Source { around: Vec::new(), region, rank };
    let of = of.into_iter().map(source).collect();
    step(StepKind::Assign(Assign { to, by, of, place: place() }))
}

/// A group.
pub fn group(body: Vec<Step>) -> Step {
    step(StepKind::Group(body))
}

/// Statements in the order of the ranks.
pub fn sequence(body: Vec<Step>) -> Step {
    step(StepKind::Sequence(body))
}

/// A guard.
pub fn when(condition: Condition, body: Vec<Step>) -> Step {
    step(StepKind::When(When { condition, body }))
}

/// A loop.
pub fn repeat(counter: u32, from: impl Into<Expr>, to: impl Into<Expr>, body: Vec<Step>) -> Step {
    let (from, to) = (from.into(), to.into());
    let counter = LoopId(counter);
    step(StepKind::Loop(Loop { counter, from, to, powers: None, reverse: false, body }))
}

/// A loop through the powers of a number.
pub fn powers(counter: u32, of: impl Into<Expr>, below: impl Into<Expr>, body: Vec<Step>) -> Step {
    let (powers, from, to) = (Some(of.into()), Expr::Int(1), below.into());
    let counter = LoopId(counter);
    step(StepKind::Loop(Loop { counter, from, to, powers, reverse: false, body }))
}

/// The step, and all inside it, on this stream and after these.
pub fn on(mut step: Step, stream: u32, after: &[u32]) -> Step {
    place_of(&mut step, &mut |place| {
        place.on = StreamId(stream);
        place.after = after.iter().map(|&one| StreamId(one)).collect();
    });
    step
}

/// The step, and all inside it, through this communicator.
pub fn via(mut step: Step, communicator: u32) -> Step {
    among_of(&mut step, &mut |among| *among = CommunicatorId(communicator));
    step
}

/// The statements inside a step.
pub fn body(step: &mut Step) -> Option<&mut Vec<Step>> {
    match &mut step.kind {
        StepKind::Group(body) | StepKind::Sequence(body) => Some(body),
        StepKind::Loop(one) => Some(&mut one.body),
        StepKind::When(one) => Some(&mut one.body),
        _ => None,
    }
}

/// Every place in a step.
pub fn place_of(step: &mut Step, visit: &mut dyn FnMut(&mut Place)) {
    match &mut step.kind {
        StepKind::Compute(one) => visit(&mut one.place),
        StepKind::Assign(one) => visit(&mut one.place),
        StepKind::Collective(one) => visit(&mut one.place),
        StepKind::Transfer(one) => visit(&mut one.place),
        StepKind::Send(one) => visit(&mut one.place),
        StepKind::Receive(one) => visit(&mut one.place),
        StepKind::Put(one) => visit(&mut one.place),
        StepKind::Signal(one) => visit(&mut one.place),
        StepKind::Wait(one) => visit(&mut one.place),
        _ => body(step).into_iter().flatten().for_each(|inner| place_of(inner, visit)),
    }
}

/// Every communicator in a step.
pub fn among_of(step: &mut Step, visit: &mut dyn FnMut(&mut CommunicatorId)) {
    match &mut step.kind {
        StepKind::Compute(_) | StepKind::Assign(_) => {}
        StepKind::Collective(one) => visit(&mut one.among),
        StepKind::Transfer(one) => visit(&mut one.among),
        StepKind::Send(one) => visit(&mut one.among),
        StepKind::Receive(one) => visit(&mut one.among),
        StepKind::Put(one) => visit(&mut one.among),
        StepKind::Signal(one) => visit(&mut one.among),
        StepKind::Wait(one) => visit(&mut one.among),
        _ => body(step).into_iter().flatten().for_each(|inner| among_of(inner, visit)),
    }
}

/// Every region in a step.
pub fn region_of(step: &mut Step, visit: &mut dyn FnMut(&mut Region)) {
    match &mut step.kind {
        StepKind::Compute(one) => one.reads.iter_mut().chain(&mut one.writes).for_each(visit),
        StepKind::Assign(one) => {
            visit(&mut one.to);
            one.of.iter_mut().for_each(|source| visit(&mut source.region));
        }
        StepKind::Collective(one) => {
            visit(&mut one.send);
            visit(&mut one.recv);
        }
        StepKind::Transfer(one) => {
            visit(&mut one.from);
            visit(&mut one.to);
        }
        StepKind::Send(one) => visit(&mut one.from),
        StepKind::Receive(one) => visit(&mut one.to),
        StepKind::Put(one) => {
            visit(&mut one.from);
            visit(&mut one.to);
        }
        StepKind::Signal(_) | StepKind::Wait(_) => {}
        _ => body(step).into_iter().flatten().for_each(|inner| region_of(inner, visit)),
    }
}

/// Every list of statements, the outer ones first.
pub fn lists(steps: &mut Vec<Step>, visit: &mut dyn FnMut(&mut Vec<Step>)) {
    visit(steps);
    for step in steps {
        if let Some(body) = body(step) {
            lists(body, visit);
        }
    }
}

/// Every expression of a step, with those inside it, the outer ones first; in a visit, an
/// expression may be replaced.
pub fn expressions(step: &mut Step, visit: &mut dyn FnMut(&mut Expr)) {
    match &mut step.kind {
        StepKind::Compute(one) => one.arguments.iter_mut().for_each(|one| inner(one, visit)),
        StepKind::Collective(one) => match &mut one.kind {
            CollectiveKind::Broadcast(root)
            | CollectiveKind::Reduce(_, root)
            | CollectiveKind::Gather(root)
            | CollectiveKind::Scatter(root) => inner(root, visit),
            _ => {}
        },
        StepKind::Transfer(one) => peer(&mut one.peer, visit),
        StepKind::Send(one) => peer(&mut one.peer, visit),
        StepKind::Receive(one) => peer(&mut one.peer, visit),
        StepKind::Put(one) => peer(&mut one.peer, visit),
        StepKind::Signal(one) => peer(&mut one.peer, visit),
        StepKind::Wait(one) => {
            for one in &mut one.signals {
                peer(&mut one.peer, visit);
                inner(&mut one.times, visit);
            }
        }
        StepKind::Loop(one) => {
            inner(&mut one.from, visit);
            inner(&mut one.to, visit);
            one.powers.iter_mut().for_each(|base| inner(base, visit));
        }
        StepKind::When(one) => condition(&mut one.condition, visit),
        StepKind::Assign(one) => {
            for source in &mut one.of {
                peer(&mut source.rank, visit);
            }
        }
        StepKind::Here(_) | StepKind::Group(_) | StepKind::Sequence(_) => {}
    }
    if let Some(steps) = body(step) {
        steps.iter_mut().for_each(|step| expressions(step, visit));
        return;
    }
    region_of(step, &mut |region| region_expressions(region, visit));
}

/// Every expression of a region.
pub fn region_expressions(region: &mut Region, visit: &mut dyn FnMut(&mut Expr)) {
    if let Some(index) = &mut region.index {
        inner(index, visit);
    }
    if let Some((from, to)) = &mut region.range {
        inner(from, visit);
        inner(to, visit);
    }
}

fn peer(peer: &mut Peer, visit: &mut dyn FnMut(&mut Expr)) {
    match peer {
        Peer::Rank(number) => inner(number, visit),
        Peer::Shift(hops) => hops.iter_mut().for_each(|hop| inner(&mut hop.by, visit)),
        Peer::Cases(cases) => {
            condition(&mut cases.condition, visit);
            self::peer(&mut cases.then, visit);
            self::peer(&mut cases.otherwise, visit);
        }
    }
}

/// Every expression of a condition.
pub fn condition(condition_: &mut Condition, visit: &mut dyn FnMut(&mut Expr)) {
    match condition_ {
        Condition::Compare(a, _, b) => {
            inner(a, visit);
            inner(b, visit);
        }
        Condition::All(list) | Condition::Any(list) => {
            list.iter_mut().for_each(|one| condition(one, visit));
        }
        Condition::Not(one) => condition(one, visit),
    }
}

/// An expression and those inside it.
pub fn inner(expr: &mut Expr, visit: &mut dyn FnMut(&mut Expr)) {
    visit(expr);
    let mut part = |part: Subexpr| {
        let mut expr = part.into_expr();
        inner(&mut expr, visit);
        expr
    };
    *expr = match std::mem::replace(expr, Expr::Size) {
        Expr::Add(a, b) => part(a) + part(b),
        Expr::Sub(a, b) => part(a) - part(b),
        Expr::Mul(a, b) => part(a) * part(b),
        Expr::Div(a, b) => part(a) / part(b),
        Expr::Rem(a, b) => part(a) % part(b),
        Expr::Min(a, b) => part(a).min(part(b)),
        Expr::Max(a, b) => part(a).max(part(b)),
        Expr::Xor(a, b) => part(a) ^ part(b),
        Expr::Element(list, index) => Expr::element(list, part(index)),
        Expr::Choice(choice) => {
            let Choice { condition: mut decides, then, otherwise } = *choice;
            let (then, otherwise) = (part(then), part(otherwise));
            condition(&mut decides, visit);
            Expr::choice(decides, then, otherwise)
        }
        leaf => leaf,
    };
}

/// Every peer of a step.
pub fn peer_of(step: &mut Step, visit: &mut dyn FnMut(&mut Peer)) {
    match &mut step.kind {
        StepKind::Transfer(one) => visit(&mut one.peer),
        StepKind::Send(one) => visit(&mut one.peer),
        StepKind::Receive(one) => visit(&mut one.peer),
        StepKind::Put(one) => visit(&mut one.peer),
        StepKind::Signal(one) => visit(&mut one.peer),
        StepKind::Wait(one) => one.signals.iter_mut().for_each(|one| visit(&mut one.peer)),
        StepKind::Assign(one) => {
            let others = one.of.iter_mut().filter(|source| !source.is_own());
            others.for_each(|source| visit(&mut source.rank));
        }
        _ => body(step).into_iter().flatten().for_each(|inner| peer_of(inner, visit)),
    }
}

/// Every signal of a step.
pub fn signal_of(step: &mut Step, visit: &mut dyn FnMut(&mut SignalId)) {
    match &mut step.kind {
        StepKind::Put(one) => one.signal.iter_mut().for_each(visit),
        StepKind::Signal(one) => visit(&mut one.signal),
        StepKind::Wait(one) => one.signals.iter_mut().for_each(|one| visit(&mut one.signal)),
        _ => body(step).into_iter().flatten().for_each(|inner| signal_of(inner, visit)),
    }
}
