//! Nobody passes before all have arrived: by signals alone.

use typed_nccl_plan::build::{Number, PlanBuilder, Signal, Stream, ring};
use typed_nccl_plan::verdict::Check;

use super::NearMiss;

/// Dissemination, in as many rounds as the number of ranks has bits.
pub(crate) fn dissemination() -> PlanBuilder {
    let (mut plan, Declared { n, rounds, net }) = declared("barrier", 1);
    for (by, round) in rounds {
        plan.when(n.gt(by), |plan| {
            plan.on(net).signal(round, ring(by));
            plan.on(net).wait([round.from(ring(-by))]);
        });
    }
    plan
}

/// Everyone tells everyone.
pub(crate) fn all_pairs() -> PlanBuilder {
    let mut plan = PlanBuilder::new("barrier of all pairs");
    let n = plan.ranks(1..);
    let arrived = plan.signal("arrived");
    let net = plan.stream("net");
    plan.for_each("k", Number::from(1)..n, |plan, k| plan.on(net).signal(arrived, ring(k)));
    plan.for_each("k", Number::from(1)..n, |plan, k| {
        plan.on(net).wait([arrived.from(ring(-k))]);
    });
    plan
}

/// Rank 0 tells nobody that it has arrived.
pub(crate) fn one_is_silent() -> NearMiss {
    let (mut plan, Declared { n, rounds, net }) = declared("barrier with a silent rank", 2);
    let r = plan.rank();
    for (by, round) in rounds {
        plan.when(n.gt(by), |plan| {
            plan.when(r.gt(0), |plan| plan.on(net).signal(round, ring(by)));
            plan.on(net).wait([round.from(ring(-by))]); // waits for rank 0
        });
    }
    NearMiss::new(plan, Check::Signals)
        .smallest([2])
        .ranks([0, 1])
        .lines(include_str!("barrier.rs"), ["waits for rank 0"])
        .mend("raise it")
}

/// Everyone waits before it tells.
pub(crate) fn waits_first() -> NearMiss {
    let (mut plan, Declared { n, rounds, net }) = declared("barrier that waits first", 2);
    for (by, round) in rounds {
        plan.when(n.gt(by), |plan| {
            plan.on(net).wait([round.from(ring(-by))]); // waits first
            plan.on(net).signal(round, ring(by)); // tells then
        });
    }
    NearMiss::new(plan, Check::Deadlock)
        .smallest([2])
        .ranks([0, 1])
        .lines(include_str!("barrier.rs"), ["waits first", "tells then"])
        .mend("order")
}

struct Declared {
    n: Number,
    /// The distance of each round, and its signal.
    rounds: Vec<(i64, Signal)>,
    net: Stream,
}

fn declared(name: &str, smallest: i64) -> (PlanBuilder, Declared) {
    let mut plan = PlanBuilder::new(name);
    let n = plan.ranks(smallest..=16);
    let rounds = [1, 2, 4, 8].map(|by| (by, plan.signal(&format!("round_{by}")))).into();
    let net = plan.stream("net");
    (plan, Declared { n, rounds, net })
}
