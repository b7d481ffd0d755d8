//! All streams of all ranks meet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use typed_nccl::plans::barrier;

use super::ranks::{RUNS, ranks, timings};

/// Each rank counts itself before the barrier; after it none may be missing.
#[test]
fn all_streams_meet() {
    for n in (1..=8).chain([13, 16]) {
        let arrived = Arc::new(AtomicUsize::new(0));
        ranks!(n, |comm| {
            let mut here = barrier::bind(&mut comm)?;
            // The barrier's own window provides the signals that it needs.
            comm.signal(comm.ring(1))?;
            comm.wait_signal(comm.ring(-1))?;
            let slow = comm.rank().index() % 3 == 1;
            let mut before = 0;
            for timing in timings(&comm) {
                here.set_timing(timing);
                for _ in 0..RUNS {
                    before += n;
                    let counter = arrived.clone();
                    comm.stream().launch((), move |(), ()| {
                        if slow {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        counter.fetch_add(1, Ordering::SeqCst);
                    })?;
                    here.run(&comm)?;
                    let counter = arrived.clone();
                    comm.stream().launch((), move |(), ()| {
                        let found = counter.load(Ordering::SeqCst);
                        assert!(found >= before, "{found} of {before} have come");
                    })?;
                }
            }
            comm.sync(comm.stream())?;
        });
    }
}
