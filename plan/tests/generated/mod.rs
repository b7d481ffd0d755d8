//! Well-formed plans at random, with names that are hard to write. Whether they are right is
//! another matter.

use typed_nccl_plan::ir::*;

/// Numbers from a seed (splitmix64).
pub(crate) struct Random(pub(crate) u64);

/// Names that are words, that mean something in numbers, and that are no words at all.
const NAMES: [&str; 20] = [
    "n",
    "m",
    "i",
    "r",
    "size",
    "true",
    "false",
    "all",
    "any",
    "axis",
    "param",
    "counter",
    "next",
    "two words",
    "`",
    "\\`\\",
    "é\u{1f980}",
    "x.y",
    "0",
    "a\n\"b\"",
];

/// What a number may mention where it stands.
#[derive(Clone, Copy)]
struct Scope<'a> {
    rank: bool,
    params: usize,
    counters: &'a [LoopId],
}

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn often(&mut self) -> bool {
        self.below(4) != 0
    }

    fn seldom(&mut self) -> bool {
        self.below(4) == 0
    }

    fn list<T>(&mut self, most: usize, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| one(self)).collect()
    }

    fn integer(&mut self) -> i64 {
        match self.below(12) {
            0 => i64::MIN,
            1 => i64::MAX,
            2 => -(self.below(100) as i64),
            _ => self.below(9) as i64,
        }
    }

    fn at(&mut self) -> Location {
        match self.below(4) {
            0 => Location::default(),
            1 => Location { file: 2, line: 0, column: u32::MAX },
            _ => Location::new(self.below(99) as u32, self.below(99) as u32),
        }
    }

    /// Some different names, always in another order.
    fn names(&mut self, most: usize) -> Vec<String> {
        let mut names: Vec<_> = NAMES.iter().map(|name| (*name).to_owned()).collect();
        let count = 1 + self.below(most);
        (0..count).map(|_| names.swap_remove(self.below(names.len()))).collect()
    }

    fn values(&mut self, least: i64) -> Values {
        let first = least.saturating_add(self.below(5) as i64);
        match self.below(5) {
            0 => Values::Exactly(first),
            1 => Values::OneOf(vec![first, first + 1, first + 4]),
            4 => Values::Powers(first),
            2 => Values::Range(first, first + self.below(3) as i64),
            _ => Values::AtLeast(first),
        }
    }

    fn number(&mut self, plan: &Plan, scope: Scope<'_>, size: usize) -> Expr {
        if size == 0 || self.seldom() {
            return match self.below(6) {
                0 if scope.rank => Expr::Rank,
                1 if scope.rank => Expr::Coordinate(AxisId(self.below(plan.axes.len()) as u32)),
                2 => Expr::Size,
                3 => Expr::Extent(AxisId(self.below(plan.axes.len()) as u32)),
                4 if !scope.counters.is_empty() => {
                    Expr::Loop(scope.counters[self.below(scope.counters.len())])
                }
                5 if scope.params > 0 => {
                    let param = self.below(scope.params);
                    let id = ParamId(param as u32);
                    match plan.params[param].count {
                        None => Expr::Param(id),
                        Some(_) => {
                            let size = size.saturating_sub(1);
                            let index = self.number(plan, scope, size.min(1));
                            Expr::element(id, index)
                        }
                    }
                }
                _ => self.integer().into(),
            };
        }
        let a = self.number(plan, scope, size - 1);
        let smaller = self.below(size);
        let b = self.number(plan, scope, smaller);
        match self.below(7) {
            0 => a + b,
            1 => a - b,
            2 => a * b,
            3 => a / b,
            4 => a ^ b,
            5 => Expr::choice(self.condition(plan, scope, smaller.min(2)), a, b),
            _ => a % b,
        }
    }

    fn condition(&mut self, plan: &Plan, scope: Scope<'_>, size: usize) -> Condition {
        match self.below(if size == 0 { 1 } else { 4 }) {
            0 => {
                let comparison = [
                    Comparison::Equal,
                    Comparison::NotEqual,
                    Comparison::Less,
                    Comparison::LessOrEqual,
                    Comparison::Greater,
                    Comparison::GreaterOrEqual,
                ][self.below(6)];
                let a = self.number(plan, scope, 3);
                Condition::Compare(a, comparison, self.number(plan, scope, 3))
            }
            1 => Condition::Not(Box::new(self.condition(plan, scope, size - 1))),
            2 => Condition::All(self.list(3, |this| this.condition(plan, scope, size - 1))),
            _ => Condition::Any(self.list(3, |this| this.condition(plan, scope, size - 1))),
        }
    }

    fn region(&mut self, plan: &Plan, counters: &[LoopId], whole: bool) -> Region {
        let scope = Scope { rank: true, params: plan.params.len(), counters };
        let buffer = self.below(plan.buffers.len());
        let declared = &plan.buffers[buffer];
        let indexed = declared.array.is_some() && !(whole && self.seldom());
        Region {
            buffer: BufferId(buffer as u32),
            index: indexed.then(|| self.number(plan, scope, 3)),
            next: declared.copies == 2 && self.seldom(),
            range: self.often().then(|| (self.number(plan, scope, 3), self.number(plan, scope, 3))),
        }
    }

    fn hop(&mut self, plan: &Plan, axis: AxisId, counters: &[LoopId]) -> Hop {
        let scope = Scope { rank: false, params: plan.params.len(), counters };
        let by = if self.often() {
            (self.below(5) as i64 - 2).into()
        } else {
            self.number(plan, scope, 5)
        };
        Hop { axis, by, wrap: self.often() }
    }

    fn peer(&mut self, plan: &Plan, among: CommunicatorId, counters: &[LoopId]) -> Peer {
        let scope = Scope { rank: true, params: plan.params.len(), counters };
        if self.seldom() {
            return Peer::Rank(self.number(plan, scope, 4));
        }
        if self.seldom() && self.seldom() {
            let condition = Expr::Rank.lt(self.number(plan, scope, 2));
            let then = self.peer(plan, among, counters);
            let otherwise = self.peer(plan, among, counters);
            return Peer::Cases(Box::new(Cases { condition, then, otherwise }));
        }
        let mut axes = plan.communicators[among.index()].axes.clone();
        axes.retain(|_| self.often());
        if self.seldom() {
            axes.reverse();
        }
        Peer::Shift(axes.into_iter().map(|axis| self.hop(plan, axis, counters)).collect())
    }

    fn place(&mut self, plan: &Plan) -> Place {
        let streams = plan.streams.len();
        let on = StreamId(self.below(streams) as u32);
        let after = self.list(2, |this| StreamId(this.below(streams) as u32));
        Place { on, after }
    }

    fn among(&mut self, plan: &Plan) -> CommunicatorId {
        CommunicatorId(self.below(plan.communicators.len()) as u32)
    }

    fn reduction(&mut self) -> Reduction {
        use Reduction::{Avg, Max, Min, Prod, Sum};
        [Sum, Prod, Min, Max, Avg][self.below(5)]
    }

    fn collective(&mut self, plan: &Plan, counters: &[LoopId]) -> CollectiveKind {
        let scope = Scope { rank: true, params: plan.params.len(), counters };
        let root = self.number(plan, scope, 2);
        match self.below(8) {
            0 => CollectiveKind::AllReduce(self.reduction()),
            1 => CollectiveKind::Broadcast(root),
            2 => CollectiveKind::Reduce(self.reduction(), root),
            3 => CollectiveKind::AllGather,
            4 => CollectiveKind::ReduceScatter(self.reduction()),
            5 => CollectiveKind::AllToAll,
            6 => CollectiveKind::Gather(root),
            _ => CollectiveKind::Scatter(root),
        }
    }

    /// Regions of one type, by their first one.
    fn assign(&mut self, plan: &Plan, counters: &[LoopId]) -> StepKind {
        let to = self.region(plan, counters, false);
        let element = |region: &Region| &plan.buffers[region.buffer.index()].element;
        let mut of = self.list(3, |this| this.region(plan, counters, false));
        of.retain(|one| element(one) == element(&to));
        of.push(to.clone());
        let by = [Reduction::Sum, Reduction::Prod, Reduction::Min, Reduction::Max][self.below(4)];
        let of = of.into_iter().map(Source::own).collect();
        StepKind::Assign(Assign { to, by, of, place: self.place(plan) })
    }

    fn compute(&mut self, plan: &Plan, counters: &[LoopId]) -> StepKind {
        let scope = Scope { rank: true, params: plan.params.len(), counters };
        StepKind::Compute(Compute {
            name: NAMES[self.below(NAMES.len())].to_owned(),
            arguments: self.list(2, |this| this.number(plan, scope, 4)),
            reads: self.list(2, |this| this.region(plan, counters, true)),
            writes: self.list(2, |this| this.region(plan, counters, true)),
            computes: Vec::new(),
            place: self.place(plan),
        })
    }

    fn transfer(&mut self, plan: &Plan, counters: &[LoopId], open: bool) -> StepKind {
        let among = self.among(plan);
        let peer = if open {
            let axes = &plan.communicators[among.index()].axes;
            let axis = axes[self.below(axes.len())];
            let hop = self.hop(plan, axis, counters);
            Peer::Shift(vec![Hop { wrap: false, ..hop }])
        } else {
            self.peer(plan, among, counters)
        };
        StepKind::Transfer(Transfer {
            from: self.region(plan, counters, false),
            peer,
            to: self.region(plan, counters, false),
            among,
            place: self.place(plan),
        })
    }

    /// What communicates, and stands anywhere but in a sequence.
    fn communication(&mut self, plan: &Plan, counters: &[LoopId], uneven: bool) -> StepKind {
        let scope = Scope { rank: true, params: plan.params.len(), counters };
        let (among, place) = (self.among(plan), self.place(plan));
        let peer = self.peer(plan, among, counters);
        let signal = SignalId(self.below(plan.signals.len()) as u32);
        match self.below(7) {
            0 => StepKind::Collective(Collective {
                kind: self.collective(plan, counters),
                send: self.region(plan, counters, false),
                recv: self.region(plan, counters, false),
                among,
                place,
            }),
            1 => StepKind::Send(Send {
                from: self.region(plan, counters, false),
                peer,
                among,
                place,
            }),
            2 => StepKind::Receive(Receive {
                to: self.region(plan, counters, false),
                peer,
                among,
                place,
            }),
            3 => StepKind::Put(Put {
                from: self.region(plan, counters, false),
                peer,
                to: self.region(plan, counters, false),
                signal: self.often().then_some(signal),
                among,
                place,
            }),
            4 => StepKind::Signal(Signal { signal, peer, among, place }),
            5 => {
                let signals = self.list(3, |this| Awaited {
                    signal: SignalId(this.below(plan.signals.len()) as u32),
                    peer: this.peer(plan, among, counters),
                    times: this.number(plan, scope, 1),
                });
                StepKind::Wait(Wait { signals, among, place })
            }
            _ if !uneven => self.transfer(plan, counters, false),
            _ => StepKind::Signal(Signal { signal, peer, among, place }),
        }
    }

    fn sequence(
        &mut self,
        plan: &Plan,
        counters: &[LoopId],
        uneven: bool,
        size: usize,
    ) -> Vec<Step> {
        let scope = Scope { rank: true, params: plan.params.len(), counters };
        self.list(3, |this| {
            let kind = match this.below(3) {
                0 if size > 0 => StepKind::When(When {
                    condition: this.condition(plan, scope, 2),
                    body: this.sequence(plan, counters, uneven, size - 1),
                }),
                1 if !uneven => this.transfer(plan, counters, true),
                _ => this.compute(plan, counters),
            };
            Step { kind, at: this.at() }
        })
    }

    fn steps(
        &mut self,
        plan: &Plan,
        counters: &[LoopId],
        (group, uneven): (bool, bool),
        size: usize,
    ) -> Vec<Step> {
        let scope = Scope { rank: true, params: plan.params.len(), counters };
        self.list(4, |this| {
            let kind = match this.below(if size == 0 { 4 } else { 9 }) {
                0 if !group && this.seldom() => this.assign(plan, counters),
                0 if !group => this.compute(plan, counters),
                4 if !group => {
                    StepKind::Group(this.steps(plan, counters, (true, uneven), size - 1))
                }
                5 if !group => StepKind::Sequence(this.sequence(plan, counters, uneven, size - 1)),
                6 => StepKind::When(When {
                    condition: this.condition(plan, scope, 3),
                    body: this.steps(plan, counters, (group, uneven), size - 1),
                }),
                7 if let Some(counter) = this.counter(plan, counters) => {
                    let from = this.number(plan, scope, 2);
                    let to = this.number(plan, scope, 2);
                    let uneven = uneven || from.mentions_rank() || to.mentions_rank();
                    let inside: Vec<_> = counters.iter().copied().chain([counter]).collect();
                    let body = this.steps(plan, &inside, (group, uneven), size - 1);
                    let powers = this.seldom().then(|| Expr::Int(1 + this.below(3) as i64));
                    StepKind::Loop(Loop { counter, from, to, powers, reverse: this.seldom(), body })
                }
                _ => this.communication(plan, counters, uneven),
            };
            Step { kind, at: this.at() }
        })
    }

    /// A counter whose name no loop around has.
    fn counter(&mut self, plan: &Plan, around: &[LoopId]) -> Option<LoopId> {
        let counter = LoopId(self.below(plan.counters.len()) as u32);
        let name = |id: LoopId| &plan.counters[id.index()].name;
        around.iter().all(|id| name(*id) != name(counter)).then_some(counter)
    }

    /// A plan whose statements stand at most `size` deep.
    pub(crate) fn plan(&mut self, size: usize) -> Plan {
        let mut plan = super::sample::plan();
        plan.steps.clear();
        plan.files = self.list(2, |this| NAMES[this.below(NAMES.len())].to_owned());
        let named = |this: &mut Self, most| {
            let names = this.names(most).into_iter();
            names.map(|name| Named { name, at: this.at() }).collect::<Vec<_>>()
        };
        (plan.signals, plan.streams) = (named(self, 3), named(self, 3));
        plan.counters = named(self, 4);
        // Counters may share their names.
        plan.counters.extend(named(self, 2));
        plan.counters.extend(plan.counters.clone().into_iter().filter(|_| self.seldom()));
        let most = 1 + self.below(4);
        plan.axes = (self.names(most).into_iter())
            .map(|name| Axis { name, extent: self.values(1), at: self.at() })
            .collect();
        plan.params.clear();
        for name in self.names(5) {
            let scope = Scope { rank: false, params: plan.params.len(), counters: &[] };
            let count = self.seldom().then(|| self.number(&plan, scope, 2));
            plan.params.push(Param { name, values: self.values(-3), count, at: self.at() });
        }
        let fixed = Scope { rank: false, params: plan.params.len(), counters: &[] };
        plan.promises = self
            .list(2, |this| {
                let counter = this.seldom().then(|| this.counter(&plan, &[])).flatten();
                let each = |counter| {
                    let (from, to) = (this.number(&plan, fixed, 2), this.number(&plan, fixed, 2));
                    Each { counter, from, to, powers: None }
                };
                let around: Vec<Each> = counter.map(each).into_iter().collect();
                let counters: Vec<LoopId> = counter.into_iter().collect();
                let inside = Scope { counters: &counters, ..fixed };
                Promise { around, condition: this.condition(&plan, inside, 4), at: this.at() }
            });
        plan.communicators = (self.names(3).into_iter())
            .map(|name| {
                let mut axes: Vec<_> = (0..plan.axes.len() as u32).map(AxisId).collect();
                if self.seldom() {
                    axes.retain(|_| self.often());
                }
                let axes = if axes.is_empty() { vec![AxisId(0)] } else { axes };
                Communicator { name, axes, at: self.at() }
            })
            .collect();
        plan.buffers = (self.names(5).into_iter())
            .map(|name| {
                let index = LoopId(self.below(plan.counters.len()) as u32);
                let array =
                    self.seldom().then(|| Array { count: self.number(&plan, fixed, 2), index });
                let counters: &[_] = if array.is_some() { &[index] } else { &[] };
                let len = self.number(&plan, Scope { counters, ..fixed }, 3);
                use ElementType::{Bf16, F8E4M3, F32, Generic, I64};
                let generic = Generic("f32".to_owned());
                Buffer {
                    name,
                    element: [F32, I64, Bf16, F8E4M3, generic][self.below(5)].clone(),
                    len,
                    array,
                    role: [Role::In, Role::Out, Role::InOut, Role::Local][self.below(4)],
                    window: self.seldom(),
                    copies: 1 + u8::from(self.seldom()),
                    at: self.at(),
                }
            })
            .collect();
        plan.steps = self.steps(&plan, &[], (false, false), size);
        plan.launch = [Launch::Eager, Launch::Captured][self.below(2)];
        plan.replayed = self.often();
        plan.target = [Version(2, 32, 3), Version(2, 28, 65_535)][self.below(2)];
        plan.order = [Order::Declared, Order::Implicit][self.below(2)];
        plan.covers =
            self.list(2, |this| Coverage { region: this.region(&plan, &[], false), at: this.at() });
        plan.computes = self.list(2, |this| Postcondition {
            kind: this.collective(&plan, &[]),
            send: this.region(&plan, &[], false),
            recv: this.region(&plan, &[], false),
            at: this.at(),
        });
        plan.claims = self.list(2, |this| Claim {
            around: Vec::new(),
            to: this.region(&plan, &[], false),
            by: this.reduction(),
            of: this.list(2, |this| {
                let counter = LoopId(this.below(plan.counters.len()) as u32);
                let (from, to) = (this.number(&plan, fixed, 1), this.number(&plan, fixed, 1));
                let each = Each { counter, from, to, powers: None };
                Source {
                    around: vec![Around::Each(each)],
                    region: this.region(&plan, &[counter], false),
                    rank: Peer::Rank(Expr::Loop(counter)),
                }
            }),
            at: this.at(),
        });
        plan
    }
}
