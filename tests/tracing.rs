//! Reports to `tracing`, with a subscriber of our own: spans of operations and waits, events of
//! changes.

use std::collections::HashMap;
use std::fmt::{Debug, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use typed_nccl::{Communicator, Device, Host, Result, Sum};

use crate::ranks::spmd;

use crate::own_process::inside;

/// The reports as text, one for each span and event: `enqueue operation=all_reduce ..`.
#[derive(Default)]
struct Told {
    next: AtomicU64,
    spans: Mutex<HashMap<u64, String>>,
    /// Spans that were opened and closed, in the order of their ends.
    over: Mutex<Vec<String>>,
    events: Mutex<Vec<String>>,
}

struct Words<'w>(&'w mut String);

impl Visit for Words<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for &'static Told {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "typed_nccl"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, Relaxed) + 1;
        let mut words = span.metadata().name().to_owned();
        span.record(&mut Words(&mut words));
        self.spans.lock().expect("nobody panics").insert(id, words);
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let mut spans = self.spans.lock().expect("nobody panics");
        values.record(&mut Words(spans.get_mut(&id.into_u64()).expect("it is open")));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut words = event.metadata().level().to_string();
        event.record(&mut Words(&mut words));
        self.events.lock().expect("nobody panics").push(words);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, id: &Id) {
        let words = self.spans.lock().expect("nobody panics").remove(&id.into_u64());
        self.over.lock().expect("nobody panics").push(words.expect("it was open"));
    }
}

impl Told {
    /// The spans with this prefix, without their place.
    fn spans(&self, begin: &str) -> Vec<String> {
        let over = self.over.lock().expect("nobody panics");
        let mut found: Vec<_> =
            over.iter().filter(|span| span.starts_with(begin)).cloned().collect();
        found.sort();
        found
    }
}

fn work<D: Device>(comm: &mut Communicator<D>) -> Result<()> {
    let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    let (next, last) = (comm.ring(1), comm.ring(-1));
    let mut y = comm.device().zeros::<f32>(4)?;
    comm.group(|group| {
        group.send(&x, next)?;
        group.recv(&mut y, last)
    })?;
    comm.sync(comm.stream())?;
    comm.barrier()
}

#[test]
fn operations_waits_and_changes_are_told() -> Result<()> {
    if !inside("operations_waits_and_changes_are_told") {
        return Ok(());
    }
    let told: &Told = Box::leak(Box::default());
    tracing::subscriber::set_global_default(told).expect("there is no other one");
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        work(&mut comm)?;
        comm.recover()?;
        comm.finish()
    })?;
    assert!(told.spans.lock().expect("nobody panics").is_empty(), "all spans are closed");

    let here = file!();
    let enqueued = told.spans("enqueue");
    assert_eq!(enqueued.len(), 6, "{enqueued:#?}");
    for rank in 0..2 {
        let of = |operation: &str, rest: &str| {
            let begin = format!(
                "enqueue operation=\"{operation}\" communicator=\"World\" rank={rank} size=2 dtype=f32 elements=4"
            );
            let span = enqueued
                .iter()
                .find(|span| span.starts_with(&begin))
                .unwrap_or_else(|| panic!("{begin}: {enqueued:#?}"));
            assert!(span.contains(&format!(" at={here}:")) && span.ends_with(rest), "{span}");
        };
        of("all_reduce", "");
        of("send", &format!(" peer={}", 1 - rank));
        of("recv", &format!(" peer={}", 1 - rank));
        for operation in ["init", "sync", "barrier", "recover", "finish"] {
            let begin =
                format!("wait operation=\"{operation}\" communicator=\"World\" rank={rank}");
            assert!(!told.spans(&begin).is_empty(), "{begin}: {:#?}", told.spans("wait"));
        }
        let events = told.events.lock().expect("nobody panics");
        let end = format!(" communicator=\"World\" rank={rank}");
        let own = events.iter().filter(|event| event.ends_with(&end));
        let own: Vec<_> = own.map(|event| event.replace(&end, "")).collect();
        let say = [
            "INFO message=ready: rank ",
            "WARN message=World was revoked",
            "INFO message=went on: rank ",
            "INFO message=finished",
        ];
        assert_eq!(own.len(), say.len(), "{own:#?}");
        let mut both = own.iter().zip(say);
        assert!(both.all(|(event, say)| event.starts_with(say)), "{own:#?}");
    }
    Ok(())
}
