//! What the structure of a plan depends on: which statements run, on whom, towards whom.
//!
//! Everything else, lengths and ranges, changes how much is moved and not who waits for whom.

use super::evenness::{Balance, count, is_even};
use super::guards::Guards;
use crate::ir::{Condition, Expr, Location, Peer, Plan, Region, Step, StepKind};

/// What the structure of a plan depends on, and what stands in the way of a proof for every size.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// Parameters that decide which statements run: bounds of loops, conditions, distances, indices.
    pub(crate) params: Vec<bool>,
    /// Axes whose extents do.
    pub(crate) axes: Vec<bool>,
    /// Loops whose bounds mention such a thing, with what their bodies need to be alike in every iteration.
    pub(crate) loops: Vec<Location>,
    /// Axes along which peers wrap around.
    pub(crate) wraps: Vec<bool>,
    /// Axes along which peers may not be there.
    pub(crate) opens: Vec<bool>,
    /// Communication whose partners depend on the rank's number: a place, and what it is.
    pub(crate) by_rank: Option<(Location, &'static str)>,
    /// Loops whose number of iterations has no bound and whose body is not the same each time.
    pub(crate) uneven: Option<Location>,
    /// Communication under a condition that tells classes of ranks apart.
    pub(crate) guarded: Option<Location>,
    /// Whether a collective is under a condition on the rank.
    pub(crate) guards_collectives: bool,
    /// Whether there are messages in the global view, and in the local one.
    pub(crate) views: (bool, bool),
    /// Whether there are puts.
    pub(crate) puts: bool,
    /// Whether a collective has a root: a rank that is like no other.
    pub(crate) rooted: bool,
    unbounded: Vec<bool>,
}

impl Shape {
    /// The structure of a plan; `unbounded` says of which axes only some extents are looked at.
    pub(crate) fn of(plan: &Plan, unbounded: &[bool]) -> Self {
        let mut shape = Self {
            unbounded: unbounded.to_vec(),
            params: vec![false; plan.params.len()],
            axes: vec![false; plan.axes.len()],
            wraps: vec![false; plan.axes.len()],
            opens: vec![false; plan.axes.len()],
            ..Self::default()
        };
        shape.steps(plan, &plan.steps);
        for buffer in &plan.buffers {
            if let Some(array) = &buffer.array {
                shape.depends(&array.count);
            }
        }
        // Lists whose length a structural parameter decides have no structure of their own.
        shape
    }

    fn depends(&mut self, expr: &Expr) {
        let (params, axes) = (&mut self.params, &mut self.axes);
        expr.any(|part| {
            match part {
                Expr::Param(id) | Expr::Element(id, _) => params[id.index()] = true,
                Expr::Extent(axis) => axes[axis.index()] = true,
                Expr::Size => axes.fill(true),
                _ => {}
            }
            false
        });
    }

    fn depends_on(&mut self, plan: &Plan, condition: &Condition) {
        let (params, axes) = (&mut self.params, &mut self.axes);
        // How near an end a rank is, and its remainder, are looked at by classes.
        Guards::new(plan, &self.unbounded).any_other(condition, &mut |part| {
            match part {
                Expr::Param(id) | Expr::Element(id, _) => params[id.index()] = true,
                Expr::Extent(axis) => axes[axis.index()] = true,
                Expr::Size => axes.fill(true),
                _ => {}
            }
            false
        });
    }

    /// Whether a part differs between ranks of which only some are looked at.
    fn by_place(&self) -> impl FnMut(&Expr) -> bool + use<> {
        let unbounded = self.unbounded.clone();
        move |part| match part {
            Expr::Rank => unbounded.contains(&true),
            Expr::Coordinate(axis) => unbounded[axis.index()],
            _ => false,
        }
    }

    fn number(&mut self, at: Location, what: &'static str) {
        self.by_rank.get_or_insert((at, what));
    }

    fn steps<'a>(&mut self, plan: &'a Plan, steps: &'a [Step]) {
        let none = crate::ir::LoopId(u32::MAX);
        let loops = steps.iter().any(|step| !step.body().is_empty());
        let (mut before, mut even) = (Balance::of(plan), loops);
        for step in steps {
            let known = self.loops.len();
            self.step(plan, step);
            // What is under way when such a loop begins would go through all of its iterations.
            if self.loops.len() > known && !(even && before.is_even()) {
                self.uneven.get_or_insert(step.at);
            }
            if even {
                let mut halves = Vec::new();
                even = count(plan, std::slice::from_ref(step), none, &mut halves);
                before.add(halves);
            }
        }
    }

    fn step<'a>(&mut self, plan: &'a Plan, step: &'a Step) {
        match &step.kind {
            StepKind::Loop(this) => {
                self.depends(&this.from);
                self.depends(&this.to);
                if this.from.any(self.by_place()) || this.to.any(self.by_place()) {
                    self.number(step.at, "the bounds of this loop mention the rank");
                }
                if !(is_fixed(plan, &this.from) && is_fixed(plan, &this.to)) {
                    self.loops.push(step.at);
                    if !is_even(plan, &this.body, this.counter) {
                        self.uneven.get_or_insert(step.at);
                    }
                }
                self.steps(plan, &this.body);
            }
            StepKind::When(this) => {
                self.depends_on(plan, &this.condition);
                let guards = Guards::new(plan, &self.unbounded);
                let is_compute = is_compute(&this.body);
                let by_number = guards.any_other(&this.condition, &mut self.by_place());
                let by_class = guards.tells_apart(&this.condition);
                if by_number && !is_compute {
                    self.number(
                        step.at,
                        "this condition tells ranks apart by more than how near an end they are and their \
                         remainders by numbers, and guards communication",
                    );
                }
                if this.condition.mentions_rank() && !is_compute {
                    self.guards_collectives |= has_collective(&this.body);
                }
                if by_class && !is_compute {
                    self.guarded.get_or_insert(step.at);
                }
                self.steps(plan, &this.body);
            }
            StepKind::Group(body) | StepKind::Sequence(body) => self.steps(plan, body),
            StepKind::Compute(this) => {
                for region in this.reads.iter().chain(&this.writes) {
                    self.region(step.at, region);
                }
            }
            StepKind::Collective(this) => {
                self.region(step.at, &this.send);
                self.region(step.at, &this.recv);
                if let Some(root) = this.kind.root() {
                    self.rooted = true;
                    self.depends(root);
                    if root.any(self.by_place()) {
                        self.number(step.at, "the root of this collective mentions the rank");
                    }
                }
            }
            StepKind::Transfer(this) => {
                self.views.0 = true;
                self.region(step.at, &this.from);
                self.region(step.at, &this.to);
                self.peer(step.at, &this.peer);
            }
            StepKind::Send(this) => {
                self.views.1 = true;
                self.region(step.at, &this.from);
                self.peer(step.at, &this.peer);
            }
            StepKind::Receive(this) => {
                self.region(step.at, &this.to);
                self.peer(step.at, &this.peer);
            }
            StepKind::Put(this) => {
                self.puts = true;
                self.region(step.at, &this.from);
                self.region(step.at, &this.to);
                self.peer(step.at, &this.peer);
            }
            StepKind::Signal(this) => self.peer(step.at, &this.peer),
            StepKind::Wait(this) => {
                for awaited in &this.signals {
                    self.depends(&awaited.times);
                    if awaited.times.any(self.by_place()) {
                        self.number(step.at, "how often this waits mentions the rank");
                    }
                    self.peer(step.at, &awaited.peer);
                }
            }
        }
    }

    fn region(&mut self, at: Location, region: &Region) {
        if let Some(index) = &region.index {
            self.depends(index);
            if index.any(self.by_place()) {
                self.number(at, "which buffer of an array this is mentions the rank");
            }
        }
    }

    fn peer(&mut self, at: Location, peer: &Peer) {
        match peer {
            Peer::Shift(hops) => {
                for hop in hops {
                    // How far is a number of its own: a step of n - 1 around a ring is one of -1.
                    let axis = hop.axis.index();
                    let of = if hop.wrap { &mut self.wraps } else { &mut self.opens };
                    of[axis] = true;
                    let params = &mut self.params;
                    hop.by.any(|part| {
                        if let Expr::Param(id) | Expr::Element(id, _) = part {
                            params[id.index()] = true;
                        }
                        false
                    });
                }
            }
            Peer::Rank(_) => self.number(at, "this peer is a rank of a number of its own"),
        }
    }
}

/// Whether a number is the same for all sizes.
fn is_fixed(plan: &Plan, expr: &Expr) -> bool {
    use crate::ir::Values;
    let one = |values: &Values| matches!(values, Values::Exactly(_));
    !expr.any(|part| match part {
        Expr::Param(id) => !one(&plan.params[id.index()].values),
        Expr::Element(..) => true,
        Expr::Extent(axis) => !one(&plan.axes[axis.index()].extent),
        Expr::Size => plan.axes.iter().any(|axis| !one(&axis.extent)),
        Expr::Rank | Expr::Coordinate(_) => true,
        _ => false,
    })
}

fn has_collective(steps: &[Step]) -> bool {
    steps.iter().any(|step| match &step.kind {
        StepKind::Collective(_) => true,
        StepKind::Group(body) | StepKind::Sequence(body) => has_collective(body),
        StepKind::Loop(this) => has_collective(&this.body),
        StepKind::When(this) => has_collective(&this.body),
        _ => false,
    })
}

fn is_compute(steps: &[Step]) -> bool {
    steps.iter().all(|step| match &step.kind {
        StepKind::Compute(_) => true,
        StepKind::Loop(this) => is_compute(&this.body),
        StepKind::When(this) => is_compute(&this.body),
        _ => false,
    })
}
