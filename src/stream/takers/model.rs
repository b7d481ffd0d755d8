//! The gate, for every order in which two threads can go: the same text, with loom's atomics.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, atomic};
use loom::thread;

#[path = "gate.rs"]
#[allow(clippy::duplicate_mod, reason = "one is the model's")]
mod gate;

use gate::{Gate, Way};

/// A stream, which carries what is behind the gate, and how much is in it. Loom tells when two threads may
/// use it at once.
struct Stream {
    way: Way,
    enqueued: UnsafeCell<u64>,
}

/// One thread launches again and again; another one closes the gate and has the stream then.
fn ended(close: fn(&Gate, &Way) -> bool) {
    let gate = Arc::new(Gate::open());
    let stream = Arc::new(Stream { way: Way::new(), enqueued: UnsafeCell::new(0) });
    let launches = thread::spawn({
        let (gate, stream) = (gate.clone(), stream.clone());
        move || {
            for number in 1..=2 {
                let Some(before) = gate.enter(&stream.way) else { return };
                // SAFETY: loom tells if another thread uses it.
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
            // In the model a store may never arrive: then it gives up.
            (0..3).any(|_| !way.is_entered())
        });
    });
}

/// The model sees what it is there to see.
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

/// A launch within a launch does not let go of what the outer one has.
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
