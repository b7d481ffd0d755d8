//! The gate in every interleaving of two threads: the same source, with loom's atomics.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, atomic};
use loom::thread;

#[path = "gate.rs"]
#[allow(clippy::duplicate_mod, reason = "one is the model's")]
mod gate;

use gate::{Gate, Way};

/// A stream, which carries the work behind the gate, and how much it has. Loom reports concurrent
/// use.
struct Stream {
    way: Way,
    enqueued: UnsafeCell<u64>,
}

/// One thread launches again and again; another closes the gate and then uses the stream.
fn ended(close: fn(&Gate, &Way) -> bool) {
    let gate = Arc::new(Gate::open());
    let stream = Arc::new(Stream { way: Way::new(), enqueued: UnsafeCell::new(0) });
    let launches = thread::spawn({
        let (gate, stream) = (gate.clone(), stream.clone());
        move || {
            for number in 1..=2 {
                let Some(before) = gate.enter(&stream.way) else { return };
                // SAFETY: loom reports use by another thread.
                stream.enqueued.with_mut(|enqueued| unsafe { *enqueued = number });
                stream.way.leave(&before, number);
            }
        }
    });
    if !close(&gate, &stream.way) {
        return launches.join().expect("no panic");
    }
    // SAFETY: as above.
    let enqueued = stream.enqueued.with(|enqueued| unsafe { *enqueued });
    assert_eq!(stream.way.used(), enqueued, "what is in the stream is noted");
    launches.join().expect("no panic");
    assert!(gate.enter(&stream.way).is_none(), "it is closed");
    assert_eq!(stream.way.used(), enqueued, "a refusal is no use");
}

#[test]
fn an_end_waits_for_who_is_inside() {
    loom::model(|| {
        ended(|gate, way| {
            gate.close();
            // Loom may delay a store indefinitely: give up then.
            (0..3).any(|_| !way.is_entered())
        });
    });
}

/// The model detects the fault that it was made for.
#[test]
#[should_panic]
fn an_end_that_looks_before_it_closes_meets_somebody() {
    loom::model(|| {
        ended(|gate, way| {
            let is_empty = !way.is_entered();
            gate.close();
            is_empty
        });
    });
}

/// A nested launch does not release what the outer one holds.
#[test]
fn who_is_inside_twice_goes_out_once() {
    loom::model(|| {
        let (gate, way) = (Gate::open(), Way::new());
        let outer = gate.enter(&way).expect("it is open");
        let inner = gate.enter(&way).expect("it is open");
        way.leave(&inner, 1);
        assert_eq!((way.used(), way.is_entered()), (0, true));
        way.leave(&outer, 2);
        assert_eq!((way.used(), way.is_entered()), (2, false));
    });
}
