//! What the parts of a random plan share: its memory, its streams, and what can be read so far.

use typed_nccl_plan::ir::{
    AxisId, Buffer, Claim, Coverage, Each, ElementType, Expr, Launch, Location, LoopId, Order,
    Param, ParamId, Peer, Plan, Postcondition, Promise, Reduction, Region, Role, Source, Step,
    Values, Version,
};

use crate::make;
use crate::random::Random;

/// How the plan orders its streams.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Streams {
    One,
    /// Every step is after all other streams.
    Ordered,
    /// As it comes.
    Loose,
}

/// A plan in the making.
pub(crate) struct Maker<'a> {
    pub(crate) random: &'a mut Random,
    pub(crate) plan: Plan,
    streams: Streams,
    /// Elements of a small buffer, as the plan writes it.
    unit: Expr,
    /// Small buffers that can be read.
    ready: Vec<u32>,
    element: ElementType,
}

impl<'a> Maker<'a> {
    pub(crate) fn new(random: &'a mut Random, endless: bool) -> Self {
        let first = *random.pick(&[1, 1, 1, 2, 2, 3]);
        let range = |random: &mut Random| match random.below(4) {
            0 => Values::Range(first, 9),
            1 => Values::OneOf(vec![2, 3, 4, 6, 8]),
            _ => Values::AtLeast(first),
        };
        // Of some, the ranks are listed and a length has no bound.
        let scaled = endless && random.chance(1, 5);
        let ranks = if scaled { Values::OneOf(vec![1, 2, 3, 4]) } else { Values::AtLeast(first) };
        let mut plan = make::plan(if endless { ranks } else { range(random) });
        if random.chance(if endless { 1 } else { 2 }, 5) {
            if !endless {
                plan.axes[0].extent = Values::Range(1, 3);
            }
            let mut axis = plan.axes[0].clone();
            axis.name = "m".to_owned();
            let few = [Values::Range(1, 4), Values::Exactly(2), Values::AtLeast(1)];
            axis.extent = random.pick(if endless && !scaled { &few } else { &few[..2] }).clone();
            plan.axes.push(axis);
            plan.communicators = vec![make::communicator("world", &[0, 1])];
            if random.chance(3, 4) {
                plan.communicators.push(make::communicator("rail", &[0]));
            }
            if random.chance(3, 4) {
                plan.communicators.push(make::communicator("node", &[1]));
            }
        } else if random.chance(1, 6) {
            plan.communicators.push(make::communicator("again", &[0]));
        }
        let mut unit = Expr::Int(*random.pick(&[1, 2, 2, 4]));
        if random.chance(1, 5) || scaled {
            let values = random.pick(&[Values::Range(1, 3), Values::Range(0, 2)]).clone();
            let values = if endless && (scaled || random.chance(1, 2)) {
                Values::AtLeast(1)
            } else {
                values
            };
            let (name, at) = ("len".to_owned(), Location::default());
            plan.params.push(Param { name, values, count: None, at });
            unit = Expr::Param(ParamId(0));
        }
        if random.chance(1, 8) {
            let least = random.range(1, 4);
            let (around, condition) = match random.chance(1, 3) {
                true => {
                    plan.counters.push(make::named("each"));
                    let (counter, to) = (LoopId(0), Expr::Int(3));
                    let each = Each { counter, from: Expr::Int(1), to, powers: None };
                    (vec![each], (Expr::Loop(counter) * Expr::Size).ge(least))
                }
                false => (Vec::new(), Expr::Size.ge(least)),
            };
            plan.promises.push(Promise { around, condition, at: Location::default() });
        }
        let streams = *random.pick(&[Streams::One, Streams::One, Streams::Ordered, Streams::Loose]);
        let names = if streams == Streams::One { 1 } else { 2 + random.below(2) };
        plan.streams = (0..names).map(|at| make::named(&format!("s{at}"))).collect();
        plan.replayed = random.chance(2, 3);
        plan.launch = if random.chance(1, 3) { Launch::Captured } else { Launch::Eager };
        plan.target = *random.pick(&[
            Version(2, 30, 7),
            Version(2, 31, 0),
            Version(2, 32, 3),
            Version(2, 32, 3),
        ]);
        if random.chance(1, 8) {
            plan.order = Order::Implicit;
        }
        let element = random.pick(&[ElementType::F32, ElementType::Bf16, ElementType::I64]).clone();
        Self { random, plan, streams, unit, ready: Vec::new(), element }
    }

    /// The plan, at the end of which most of what came is read.
    pub(crate) fn finish(mut self) -> Plan {
        let local = |one: &&u32| self.plan.buffers[**one as usize].role == Role::Local;
        let reads: Vec<Region> = self.ready.iter().filter(local).copied().map(make::all).collect();
        if !reads.is_empty() && self.random.chance(3, 4) {
            self.push(make::compute("end", reads, Vec::new()));
        }
        self.plan
    }

    /// Adds a step on a stream of the plan's style.
    pub(crate) fn push(&mut self, step: Step) {
        let step = self.placed(step);
        self.plan.steps.push(step);
    }

    /// Puts a step, and all inside it, on a stream.
    pub(crate) fn placed(&mut self, step: Step) -> Step {
        let streams = self.plan.streams.len() as u32;
        let stream = self.random.below(streams as usize) as u32;
        let others: Vec<u32> = (0..streams).filter(|&one| one != stream).collect();
        match self.streams {
            Streams::One => step,
            Streams::Ordered => make::on(step, stream, &others),
            Streams::Loose => {
                let chosen = others.into_iter().filter(|_| self.random.chance(1, 2));
                let chosen: Vec<u32> = chosen.collect();
                make::on(step, stream, &chosen)
            }
        }
    }

    pub(crate) fn buffer(&mut self, role: Role, len: Expr, window: bool) -> u32 {
        let at = self.plan.buffers.len() as u32;
        let buffer = make::buffer(&format!("b{at}"), role, len);
        self.plan.buffers.push(Buffer { element: self.element.clone(), window, ..buffer });
        at
    }

    pub(crate) fn unit(&self) -> Expr {
        self.unit.clone()
    }

    /// A small buffer that can be read.
    pub(crate) fn source(&mut self) -> u32 {
        if !self.ready.is_empty() && self.random.chance(2, 3) {
            return *self.random.pick(&self.ready);
        }
        let role = *self.random.pick(&[Role::In, Role::In, Role::InOut]);
        let unit = self.unit();
        let buffer = self.buffer(role, unit, false);
        self.ready.push(buffer);
        buffer
    }

    /// A small buffer that is written entirely on every rank, and can be read then. Not this one.
    pub(crate) fn target(&mut self, not: &[u32]) -> u32 {
        if self.random.chance(1, 4) {
            let buffers = &self.plan.buffers;
            let fits = |one: &&u32| {
                !not.contains(one) && !matches!(buffers[**one as usize].role, Role::In)
            };
            let list: Vec<u32> = self.ready.iter().filter(fits).copied().collect();
            if !list.is_empty() {
                return *self.random.pick(&list);
            }
        }
        let role = *self.random.pick(&[Role::Out, Role::Out, Role::Local, Role::InOut]);
        let unit = self.unit();
        let buffer = self.buffer(role, unit, false);
        self.ready.push(buffer);
        buffer
    }

    /// A small buffer of the caller's, which may be written on some ranks only.
    pub(crate) fn partly(&mut self) -> u32 {
        let unit = self.unit();
        let buffer = self.buffer(Role::InOut, unit, false);
        self.ready.push(buffer);
        buffer
    }

    /// A buffer that has a part for every rank of a communicator.
    pub(crate) fn wide(&mut self, role: Role, communicator: u32, window: bool) -> u32 {
        let len = self.unit() * self.size(communicator);
        self.buffer(role, len, window)
    }

    /// One rank's part of a wide buffer.
    pub(crate) fn chunk(&self, buffer: u32, at: Expr) -> Region {
        let (from, to) = (at.clone() * self.unit(), (at + 1) * self.unit());
        make::part(buffer, from, to)
    }

    pub(crate) fn counter(&mut self) -> u32 {
        let at = self.plan.counters.len() as u32;
        self.plan.counters.push(make::named(&format!("i{at}")));
        at
    }

    pub(crate) fn signal(&mut self) -> u32 {
        let at = self.plan.signals.len();
        if at > 0 && self.random.chance(1, 3) {
            return self.random.below(at) as u32;
        }
        self.plan.signals.push(make::named(&format!("x{at}")));
        at as u32
    }

    pub(crate) fn communicator(&mut self) -> u32 {
        self.random.below(self.plan.communicators.len()) as u32
    }

    /// How many ranks a communicator has, and which this one is.
    pub(crate) fn size(&self, communicator: u32) -> Expr {
        match self.axis(communicator) {
            Some(axis) => Expr::Extent(AxisId(axis)),
            None => Expr::Size,
        }
    }

    pub(crate) fn place(&self, communicator: u32) -> Expr {
        match self.axis(communicator) {
            Some(axis) => Expr::Coordinate(AxisId(axis)),
            None => Expr::Rank,
        }
    }

    fn axis(&self, communicator: u32) -> Option<u32> {
        let axes = &self.plan.communicators[communicator as usize].axes;
        if axes.len() == 1 && self.plan.axes.len() > 1 { Some(axes[0].0) } else { None }
    }

    /// An axis of a communicator.
    pub(crate) fn along(&mut self, communicator: u32) -> u32 {
        let axes = &self.plan.communicators[communicator as usize].axes;
        self.random.pick(axes).0
    }

    pub(crate) fn reduction(&mut self) -> Reduction {
        use Reduction::{Avg, Max, Min, Prod, Sum};
        *self.random.pick(&[Sum, Sum, Sum, Prod, Min, Max, Avg])
    }

    /// Says that a region is covered.
    pub(crate) fn covers(&mut self, region: Region) {
        self.plan.covers.push(Coverage { region, at: Location::default() });
    }

    /// Claims that a region holds what a rank's did.
    pub(crate) fn claims(&mut self, to: Region, region: Region, rank: Peer) {
        let of = vec![Source { around: Vec::new(), region, rank }];
        let (by, at) = (Reduction::Sum, Location::default());
        self.plan.claims.push(Claim { around: Vec::new(), to, by, of, at });
    }

    pub(crate) fn computes(&mut self, post: Postcondition) {
        self.plan.computes.push(post);
    }

    /// A distance that is not far.
    pub(crate) fn distance(&mut self) -> i64 {
        *self.random.pick(&[1, 1, 1, -1, -1, 2, -2, 3, 0])
    }

    /// The peers of a message: whom one sends it, and from whom one receives it.
    pub(crate) fn pair(&mut self, communicator: u32, wrap: bool) -> (Peer, Peer) {
        let axis = self.along(communicator);
        let by = self.distance();
        (make::hop(axis, by, wrap), make::hop(axis, -by, wrap))
    }

    /// A compute step.
    pub(crate) fn work(&mut self) {
        let mut reads = vec![self.source()];
        if self.random.chance(1, 3) {
            reads.push(self.source());
        }
        let to = self.target(&[]);
        let of: Vec<u32> = (0..).zip(&reads).map(|(at, _)| at).collect();
        let reads = reads.into_iter().map(make::all).collect();
        let mut step = make::compute("work", reads, vec![make::all(to)]);
        if self.random.chance(1, 3) {
            let by = self.reduction();
            step = make::computes(step, by, &of);
        }
        self.push(step);
    }

    pub(crate) fn turn(&self, counter: u32) -> Expr {
        Expr::Loop(LoopId(counter))
    }

    /// These buffers are not to be read by other parts.
    pub(crate) fn forget(&mut self, buffers: &[u32]) {
        self.ready.retain(|one| !buffers.contains(one));
    }
}
