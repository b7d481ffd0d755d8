//! Metrics, with a recorder of our own: operations, bytes, waits, late ranks and changes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use typed_nccl::{AnyDevice, CommConfig, Communicator, Error, Host, Result, Seat, Stragglers, Sum};

use crate::own_process::inside;

/// A sum, and how many values it has.
#[derive(Default)]
struct Values {
    sum: AtomicU64,
    count: AtomicU64,
}

impl CounterFn for Values {
    fn increment(&self, value: u64) {
        self.sum.fetch_add(value, Relaxed);
        self.count.fetch_add(1, Relaxed);
    }

    fn absolute(&self, _: u64) {}
}

impl HistogramFn for Values {
    fn record(&self, value: f64) {
        assert!(value >= 0.0);
        self.count.fetch_add(1, Relaxed);
    }
}

/// What was told, as `name{label=value,..}`, and the units that were described.
#[derive(Default)]
struct Told {
    values: Mutex<HashMap<String, Arc<Values>>>,
    units: Mutex<HashMap<String, Unit>>,
}

impl Told {
    fn of(&self, key: &Key) -> Arc<Values> {
        let labels: Vec<_> = key.labels().map(|l| format!("{}={}", l.key(), l.value())).collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        self.values.lock().expect("nobody panics").entry(name).or_default().clone()
    }

    /// The sum and the number of a metric's values.
    fn told(&self, name: &str) -> (u64, u64) {
        let values = self.values.lock().expect("nobody panics");
        values.get(name).map_or((0, 0), |of| (of.sum.load(Relaxed), of.count.load(Relaxed)))
    }

    fn describe(&self, name: KeyName, unit: Option<Unit>) {
        let mut units = self.units.lock().expect("nobody panics");
        units.insert(name.as_str().to_owned(), unit.expect("each has one"));
    }
}

impl Recorder for &'static Told {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(name, unit);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(name, unit);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(name, unit);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.of(key))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.of(key))
    }
}

type Comm = Communicator<Host<AnyDevice>>;

/// Two ranks, of which the second comes late to a barrier, until the first has a report of that.
fn rank(seat: Seat, told: &Told) -> Result<()> {
    let index = seat.rank().index();
    let config =
        CommConfig::builder().stragglers(Stragglers::Report(Duration::from_millis(50))).build();
    let device = Host::<AnyDevice>::any(index as u32)?;
    let mut comm: Comm =
        Communicator::builder().seat(seat).device(device).config(config).build().connect()?;
    let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    let other = 1 - index;
    let mut y = comm.device().zeros::<u8>(3)?;
    let z = comm.device().zeros::<u8>(3)?;
    comm.group(|group| {
        group.send(&z, other)?;
        group.recv(&mut y, other)
    })?;
    // A refused call is no operation.
    let bad = comm.send(&z, 9).expect_err("there is no such rank");
    assert!(matches!(bad, Error::NoSuchRank(_)), "{bad}");
    comm.sync(comm.stream())?;
    if index == 1 {
        while told.told("typed_nccl_late_total{communicator=World,rank=0,late=1}").0 == 0 {
            thread::sleep(Duration::from_millis(5));
        }
    }
    comm.barrier()?;
    comm.finish()
}

#[test]
fn operations_waits_and_late_ranks_are_counted() {
    if !inside("operations_waits_and_late_ranks_are_counted") {
        return;
    }
    let told: &'static Told = Box::leak(Box::default());
    metrics::set_global_recorder(told).expect("there is no other one");
    let ranks: Vec<_> =
        Seat::local(2).into_iter().map(|seat| thread::spawn(|| rank(seat, told))).collect();
    ranks.into_iter().for_each(|rank| rank.join().expect("no panic").expect("no error"));
    for rank in 0..2 {
        let of = |metric: &str, label: &str, value: &str| {
            told.told(&format!("{metric}{{communicator=World,rank={rank},{label}={value}}}"))
        };
        let operations = |name: &str| of("typed_nccl_operations_total", "operation", name);
        assert_eq!(["all_reduce", "send", "recv"].map(operations), [(1, 1); 3]);
        let bytes = |name: &str| of("typed_nccl_bytes_total", "operation", name).0;
        assert_eq!(["all_reduce", "send", "recv"].map(bytes), [16, 3, 3]);
        for operation in ["init", "sync", "barrier", "finish"] {
            let (_, waits) = of("typed_nccl_wait_seconds", "operation", operation);
            assert!(waits > 0, "{operation}");
        }
        for change in ["ready", "finished"] {
            assert_eq!(of("typed_nccl_changes_total", "change", change), (1, 1), "{change}");
        }
    }
    assert!(told.told("typed_nccl_changes_total{communicator=World,rank=0,change=late}").0 > 0);
    let units = told.units.lock().expect("nobody panics");
    let unit = |name: &str| units.get(&format!("typed_nccl_{name}")).copied();
    assert_eq!(unit("wait_seconds"), Some(Unit::Seconds));
    assert_eq!(unit("bytes_total"), Some(Unit::Bytes));
    assert_eq!(units.len(), 5);
}
