//! Which ranks left and why, as reported to the others.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use typed_nccl::{Cuda, Error, Sum};

use crate::common::connect;
use crate::mine::{Mine, says};
use crate::scenario::{NEWEST, on};
use crate::waits::hold;

thread_local! {
    /// Dropped when a rank's thread is over.
    static OVER: RefCell<Option<Sender<()>>> = const { RefCell::new(None) };
}

/// Notified when a rank's thread is over.
struct End(Mutex<Option<Sender<()>>>, Mutex<Receiver<()>>);

impl End {
    fn new() -> Self {
        let (over, waits) = channel();
        Self(Mutex::new(Some(over)), Mutex::new(waits))
    }

    /// Of this thread.
    fn is_mine(&self) {
        OVER.set(self.0.lock().expect("whole").take());
    }

    fn wait(&self) {
        let _ = self.1.lock().expect("whole").recv_timeout(Duration::from_secs(20));
    }
}

/// Rank 2 leaves, then rank 1, then rank 0 waits for both.
#[test]
fn every_rank_that_is_lost_is_named_with_the_first_cause() {
    on(NEWEST, || {
        let (one, two) = (End::new(), End::new());
        let failed = Cuda::spmd(3, |place| -> Result<(), Mine> {
            let comm = connect(place, 20_000)?;
            comm.barrier()?;
            match comm.rank().index() {
                0 => {
                    one.wait();
                    let mut x = comm.device().zeros::<f32>(8)?;
                    hold(comm.stream())?;
                    comm.all_reduce_in_place(&mut x, Sum)?;
                    let why = "ranks 1 and 2 left: rank 2: it returned an error: disk full; rank 1: it returned an error: tired";
                    says(&x.to_vec().expect_err("two are gone"), &[1, 2], why);
                    Ok(())
                }
                1 => {
                    one.is_mine();
                    two.wait();
                    Err(Mine::Tired)
                }
                _ => {
                    two.is_mine();
                    Err(Mine::Disk)
                }
            }
        });
        assert!(matches!(failed, Err(Mine::Disk)), "{failed:?}");
        Ok(())
    });
}

/// A rank that ends the communicator names the ranks that left before it.
#[test]
fn a_panic_after_an_error() {
    on(NEWEST, || {
        let (one, two) = (End::new(), End::new());
        let ranks = catch_unwind(AssertUnwindSafe(|| {
            Cuda::spmd(3, |place| -> Result<(), Mine> {
                let comm = connect(place, 20_000)?;
                comm.barrier()?;
                match comm.rank().index() {
                    0 => {
                        one.wait();
                        let why = "ranks 1 and 2 left: rank 2: it returned an error: disk full; rank 1: its thread panicked: rank 1 has a bug";
                        says(&comm.health().expect_err("poisoned"), &[1, 2], why);
                        Ok(())
                    }
                    1 => {
                        one.is_mine();
                        two.wait();
                        panic!("rank 1 has a bug")
                    }
                    _ => {
                        two.is_mine();
                        Err(Mine::Disk)
                    }
                }
            })
        }));
        let panic = ranks.expect_err("it comes through");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"rank 1 has a bug"));
        Ok(())
    });
}

#[test]
fn a_panic_is_told_with_its_message() {
    on(NEWEST, || {
        let end = End::new();
        let ranks = catch_unwind(AssertUnwindSafe(|| {
            Cuda::spmd(2, |place| {
                let comm = connect(place, 20_000)?;
                comm.barrier()?;
                let rank = comm.rank().index();
                if rank == 1 {
                    end.is_mine();
                    panic!("rank {rank} has a bug");
                }
                end.wait();
                let why = "rank 1 left: its thread panicked: rank 1 has a bug";
                says(&comm.health().expect_err("poisoned"), &[1], why);
                Ok::<_, Error>(())
            })
        }));
        assert!(ranks.is_err());
        Ok(())
    });
}
