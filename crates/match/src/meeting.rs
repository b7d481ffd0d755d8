//! Meetings: one collective or one message, of all ranks that take part in it.

/// What becomes of a meeting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Met<R, D> {
    /// Somebody's part is missing.
    Pending,
    /// It does not happen, because a rank refused its call: the first one that did.
    Refused {
        /// Its place among the parts.
        by: usize,
        /// Its reason.
        why: R,
    },
    /// It does not happen, because the calls differ: the least difference of any call from the
    /// first.
    Differs(D),
    /// It happens.
    Alike,
}

/// A meeting from the first call to its end.
#[derive(Debug)]
pub struct Meeting<C, R> {
    /// By member: none from whoever has not come.
    parts: Vec<Option<Result<C, R>>>,
    missing: usize,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Waiting,
    Moving,
    Over,
}

impl<C, R> Meeting<C, R> {
    pub(crate) fn new(size: usize) -> Self {
        let parts = (0..size).map(|_| None).collect();
        Self { parts, missing: size, phase: Phase::Waiting }
    }

    pub(crate) fn reset(&mut self) {
        (self.missing, self.phase) = (self.parts.len(), Phase::Waiting);
        self.parts.fill_with(|| None);
    }

    pub(crate) fn come(&mut self, member: usize, part: Result<C, R>) {
        self.missing -= usize::from(self.lacks(member));
        self.parts[member] = Some(part);
    }

    /// How many members it has.
    pub fn size(&self) -> usize {
        self.parts.len()
    }

    /// A member's call, if it has made it.
    #[inline]
    pub fn call(&self, member: usize) -> Option<&C> {
        self.parts[member].as_ref()?.as_ref().ok()
    }

    /// The calls that were made, and by whom.
    pub fn calls(&self) -> impl Iterator<Item = (usize, &C)> {
        (0..self.size()).filter_map(|member| Some((member, self.call(member)?)))
    }

    /// Whether this member has neither called nor refused.
    #[inline]
    pub fn lacks(&self, member: usize) -> bool {
        self.parts[member].is_none()
    }

    /// What becomes of it. `differ` says how two calls differ, if they do; of several differences
    /// the least one counts. Being alike must be an equivalence.
    pub fn met<D: Ord>(&self, differ: impl Fn(&C, &C) -> Option<D>) -> Met<&R, D> {
        if self.missing > 0 {
            return Met::Pending;
        }
        let (mut first, mut least) = (None, None);
        for (by, part) in self.parts.iter().enumerate() {
            match (part, first) {
                (None, _) => return Met::Pending,
                (Some(Err(why)), _) => return Met::Refused { by, why },
                (Some(Ok(call)), None) => first = Some(call),
                (Some(Ok(call)), Some(first)) => {
                    least = [least, differ(first, call)].into_iter().flatten().min();
                }
            }
        }
        least.map_or(Met::Alike, Met::Differs)
    }

    /// Its data moves from here on.
    #[inline]
    pub fn begin(&mut self) {
        self.phase = Phase::Moving;
    }

    /// Whether somebody came and it has neither begun nor ended.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.phase == Phase::Waiting && self.missing < self.parts.len()
    }

    pub(crate) fn end(&mut self) -> &Self {
        self.phase = Phase::Over;
        self
    }

    pub(crate) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }
}
