//! Metrics for the `metrics` feature, by that facade: operations, bytes, waits, late ranks and
//! changes of state. `docs/guide/src/watch.md` lists them. Without the feature every function here
//! is a no-op.

use crate::Rank;
use crate::backend::{Backend, Op};
use crate::health::{Change, Health};

#[cfg(not(feature = "metrics"))]
mod off {
    use super::{Backend, Change, Health, Op, Rank};

    /// A host wait that is not measured.
    pub(crate) struct Wait;

    /// Counts operations that were enqueued.
    #[inline(always)]
    pub(crate) fn enqueued<B: Backend>(_: &Health, _: &[Op<'_, B>]) {}

    /// Measures a host wait.
    #[inline(always)]
    pub(crate) fn wait(_: Option<&Health>, _: &'static str) -> Wait {
        Wait
    }

    /// Counts a change of a communicator's state.
    #[inline(always)]
    pub(crate) fn change(_: &'static str, _: Rank, _: &Change) {}
}

#[cfg(feature = "metrics")]
mod on {
    use std::collections::HashMap;
    use std::sync::LazyLock;
    use std::time::Instant;

    use metrics::{
        Key, Label, Level, Metadata, Unit, counter, describe_counter, describe_histogram,
    };

    use super::{Backend, Change, Health, Op, Rank};
    use crate::lock::Mutex;

    const OPERATIONS: &str = "typed_nccl_operations_total";
    const BYTES: &str = "typed_nccl_bytes_total";
    const WAIT: &str = "typed_nccl_wait_seconds";
    const LATE: &str = "typed_nccl_late_total";
    const CHANGES: &str = "typed_nccl_changes_total";

    /// The metrics of one operation of a rank.
    struct Keys {
        operations: Key,
        bytes: Key,
        wait: Key,
    }

    /// A communicator's name, the rank, an operation.
    type Of = (&'static str, Option<usize>, &'static str);

    /// All so far. Communicators' names are in types and operations in this crate, so there are few,
    /// and a call does not allocate its labels.
    static KEYS: LazyLock<Mutex<HashMap<Of, &'static Keys>>> = LazyLock::new(Mutex::default);

    static METADATA: Metadata<'_> = Metadata::new("typed_nccl", Level::INFO, None);

    impl Keys {
        fn of(of: Of) -> &'static Self {
            KEYS.lock().entry(of).or_insert_with(|| Box::leak(Box::new(Self::new(of))))
        }

        fn new((communicator, rank, operation): Of) -> Self {
            let labels: &'static [Label] = Box::leak(Box::new([
                Label::from_static_parts("communicator", communicator),
                Label::new("rank", rank.map(|rank| rank.to_string()).unwrap_or_default()),
                Label::from_static_parts("operation", operation),
            ]));
            let [operations, bytes, wait] =
                [OPERATIONS, BYTES, WAIT].map(|name| Key::from_static_parts(name, labels));
            Self { operations, bytes, wait }
        }
    }

    /// Counts operations that were enqueued.
    pub(crate) fn enqueued<B: Backend>(health: &Health, ops: &[Op<'_, B>]) {
        let rank = health.rank().index();
        for call in ops.iter().map(Op::call) {
            let keys = Keys::of((health.name(), Some(rank), call.operation.name()));
            metrics::with_recorder(|to| {
                to.register_counter(&keys.operations, &METADATA).increment(1);
                to.register_counter(&keys.bytes, &METADATA).increment(call.bytes() as u64);
            });
        }
    }

    /// A host wait, measured until it is dropped.
    pub(crate) struct Wait {
        since: Instant,
        of: Of,
    }

    /// Measures a host wait.
    pub(crate) fn wait(health: Option<&Health>, operation: &'static str) -> Wait {
        let communicator = health.map(Health::name).unwrap_or_default();
        let rank = health.map(|health| health.rank().index());
        Wait { since: Instant::now(), of: (communicator, rank, operation) }
    }

    impl Drop for Wait {
        fn drop(&mut self) {
            let keys = Keys::of(self.of);
            metrics::with_recorder(|to| {
                to.register_histogram(&keys.wait, &METADATA).record(self.since.elapsed());
            });
        }
    }

    /// Counts a change of a communicator's state.
    pub(crate) fn change(communicator: &'static str, rank: Rank, change: &Change) {
        if let Change::Ready { .. } = change {
            describe();
        }
        let labels = |name, value| {
            [
                ("communicator", communicator.to_owned()),
                ("rank", rank.index().to_string()),
                (name, value),
            ]
        };
        if let Change::Late(late) = change {
            counter!(LATE, &labels("late", late.rank.index().to_string())).increment(1);
        }
        counter!(CHANGES, &labels("change", change.name().to_owned())).increment(1);
    }

    /// Says what the metrics are. The program's recorder may have come after an earlier
    /// communicator, so each one says it.
    fn describe() {
        describe_counter!(OPERATIONS, Unit::Count, "Operations that were enqueued");
        describe_counter!(BYTES, Unit::Bytes, "Bytes of this rank's part of them");
        describe_histogram!(WAIT, Unit::Seconds, "Time that the host waited in a call");
        describe_counter!(LATE, Unit::Count, "Reports that another rank is late");
        describe_counter!(CHANGES, Unit::Count, "Changes of communicators' states");
    }
}

#[cfg(not(feature = "metrics"))]
use off as to;
#[cfg(feature = "metrics")]
use on as to;
pub(crate) use to::{Wait, change, enqueued, wait};
