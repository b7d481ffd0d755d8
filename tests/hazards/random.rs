//! Random programs, compared with an oracle that searches for paths in the graph of their events,
//! without clocks.

use typed_nccl::{Result, Sum};

use super::play::{Player, play};

const RANKS: usize = 3;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Step {
    Read(usize),
    Write(usize),
    Put { from: usize, to: usize, context: u32 },
    Signal { from: usize, to: usize, context: u32 },
    Wait { at: usize, from: usize, context: u32 },
    Reduce,
    Broadcast { root: usize },
    Send { from: usize, to: usize },
}

impl Step {
    /// Whether a rank takes part.
    fn is_of(self, rank: usize) -> bool {
        match self {
            Self::Read(at) | Self::Write(at) | Self::Wait { at, .. } => at == rank,
            Self::Put { from, .. } | Self::Signal { from, .. } => from == rank,
            Self::Send { from, to } => from == rank || to == rank,
            Self::Reduce | Self::Broadcast { .. } => true,
        }
    }

    fn run(self, p: &mut Player) -> Result<()> {
        match self {
            Self::Read(_) => p.read(),
            Self::Write(_) => p.write(),
            Self::Put { to, context, .. } => p.put_in(to, context),
            Self::Signal { to, context, .. } => p.signal_in(to, context, 0),
            Self::Wait { from, context, .. } => p.wait_in(from, context, 0),
            Self::Reduce => p.comm.all_reduce_in_place(&mut p.one, Sum),
            Self::Broadcast { root } => p.comm.broadcast_in_place(&mut p.one, root),
            Self::Send { from, to } if from == p.rank => p.comm.send(&p.one, to),
            Self::Send { from, .. } => p.comm.recv(&mut p.one, from),
        }
    }

    /// The kind of signal that it raises: from, to, context.
    fn raises(self) -> Option<(usize, usize, u32)> {
        match self {
            Self::Put { from, to, context } | Self::Signal { from, to, context } => {
                Some((from, to, context))
            }
            _ => None,
        }
    }

    /// The kind of signal that it consumes.
    fn consumes(self) -> Option<(usize, usize, u32)> {
        match self {
            Self::Wait { at, from, context } => Some((from, at, context)),
            _ => None,
        }
    }

    /// Whether data flows in it from one rank to another.
    fn flows(self, a: usize, b: usize) -> bool {
        match self {
            Self::Reduce => true,
            Self::Broadcast { root } => root == a,
            Self::Send { from, to } => (from, to) == (a, b),
            _ => false,
        }
    }

    /// The owner of the used window, whether it is written, and whether by a put.
    fn uses(self) -> Option<(usize, bool, bool)> {
        match self {
            Self::Read(at) => Some((at, false, false)),
            Self::Write(at) => Some((at, true, false)),
            Self::Put { to, .. } => Some((to, true, true)),
            _ => None,
        }
    }
}

/// Steps in a possible order.
fn draw(seed: u64) -> Vec<Step> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |many: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).expect("31 bits") % many
    };
    let mut steps: Vec<Step> = Vec::new();
    let many = 3 + below(12);
    while steps.len() < many {
        let (a, b, context) = (below(RANKS), below(RANKS), u32::from(below(4) == 0));
        let other = (a + 1 + below(RANKS - 1)) % RANKS;
        let step = match below(12) {
            0 | 1 => Step::Read(a),
            2 => Step::Write(a),
            3 | 4 => Step::Put { from: a, to: b, context },
            5 => Step::Signal { from: a, to: b, context },
            6..=8 => Step::Wait { at: a, from: b, context },
            9 => Step::Reduce,
            10 => Step::Broadcast { root: a },
            _ => Step::Send { from: a, to: other },
        };
        if let Some(kind) = step.consumes() {
            let raised = steps.iter().filter(|step| step.raises() == Some(kind)).count();
            let consumed = steps.iter().filter(|step| step.consumes() == Some(kind)).count();
            if consumed >= raised {
                continue;
            }
        }
        steps.push(step);
    }
    steps
}

/// The wait that consumes the signal of step `at`.
fn consumer(steps: &[Step], at: usize) -> Option<usize> {
    let kind = steps[at].raises();
    let number = steps[..at].iter().filter(|step| step.raises() == kind).count();
    let is_consumer = |&other: &usize| steps[other].consumes() == kind;
    (0..steps.len()).filter(is_consumer).nth(number)
}

/// Whether step `first`, on rank `of`, is over before `second` begins on rank `on`, that is,
/// whether there is a path. Step `none` does not count; intermediate steps lie strictly between.
fn before(steps: &[Step], first: usize, of: usize, second: usize, on: usize) -> bool {
    if first >= second {
        return false;
    }
    if of == on {
        return true;
    }
    // The path leaves the rank by a step later than `first`.
    (first + 1..second).any(|at| {
        let step = steps[at];
        let relay = |next: usize| next == on || before(steps, at, next, second, on);
        match step.raises() {
            Some((from, to, _)) if from == of => consumer(steps, at)
                .is_some_and(|wait| wait < second && before(steps, wait, to, second, on)),
            _ => (0..RANKS)
                .any(|next| next != of && step.is_of(of) && step.flows(of, next) && relay(next)),
        }
    })
}

/// Whether a put has arrived before `second` begins on rank `on`.
fn arrived(steps: &[Step], put: usize, second: usize, on: usize) -> bool {
    let kind = steps[put].raises();
    let Some((from, to, _)) = kind else { return false };
    let by_signal = (put..second).filter(|&at| steps[at].raises() == kind).any(|at| {
        consumer(steps, at).is_some_and(|wait| wait < second && before(steps, wait, to, second, on))
    });
    // By a collective or a message, on any rank reached from the time before the put's end.
    let by_flow = (put + 1..second).any(|at| {
        (0..RANKS).any(|rank| {
            let here = rank == from || told_of_start(steps, put, from, at, rank);
            let step = steps[at];
            here && step.is_of(rank)
                && (0..RANKS).any(|next| {
                    let flows = step.flows(rank, next) && step.is_of(next);
                    flows && (next == on || before(steps, at, next, second, on))
                })
        })
    });
    by_signal || by_flow
}

/// Whether rank `rank` has learnt, at step `at`, of something that the put's sender did later. Then
/// a collective or a message in which it takes part comes after the put's stream has passed the
/// put.
fn told_of_start(steps: &[Step], put: usize, from: usize, at: usize, rank: usize) -> bool {
    before(steps, put, from, at, rank)
}

/// Unordered uses of one window, one of them a put: the owner, the sender, the other rank, whether
/// its use writes, and whether it is a put.
fn races(steps: &[Step]) -> Vec<(usize, usize, usize, bool, bool)> {
    let mut found = Vec::new();
    for (second, later) in steps.iter().enumerate() {
        let Some((owner, writes, puts)) = later.uses() else { continue };
        for (first, earlier) in steps[..second].iter().enumerate() {
            let Some((other, wrote, put)) = earlier.uses() else { continue };
            if other != owner || !(writes || wrote) || !(puts || put) {
                continue;
            }
            let rank = |step: Step| step.raises().map_or(owner, |(from, ..)| from);
            let (a, b) = (rank(*earlier), rank(*later));
            let ordered = match put {
                true => earlier.raises() == later.raises() || arrived(steps, first, second, b),
                false => before(steps, first, a, second, b),
            };
            if ordered {
                continue;
            }
            if put {
                found.push((owner, a, b, writes, puts));
            }
            if puts {
                found.push((owner, b, a, wrote, put));
            }
        }
    }
    found
}

#[test]
fn random_programs_beside_an_oracle() {
    let (mut racy, mut right) = (0, 0);
    for seed in 1..=600 {
        let steps = draw(seed);
        let races = races(&steps);
        let told = play(RANKS, |p| {
            let rank = p.rank;
            let own = steps.iter().filter(|step| step.is_of(rank));
            own.copied().try_for_each(|step| step.run(p))
        });
        for hazard in told.iter().flatten() {
            let no_order = hazard.no_order.as_ref().expect("with both lines");
            let (from, other) = (no_order.from.index(), &no_order.other);
            let seen =
                (hazard.rank.index(), from, other.rank.index(), other.is_write, other.is_put);
            assert!(races.contains(&seen), "seed {seed}: a false alarm: {hazard}\n{steps:#?}");
        }
        let is_told = told.iter().any(|told| !told.is_empty());
        assert_eq!(is_told, !races.is_empty(), "seed {seed}: {races:?}\n{steps:#?}");
        *if is_told { &mut racy } else { &mut right } += 1;
    }
    assert!(racy > 100 && right > 100, "{racy} race, {right} do not");
}
