//! A struct that owns a communicator, its buffers and its stream: built in `new`, moved to another
//! thread, stepped through `&mut self`, aborted on the error path.

use std::sync::mpsc::channel;
use std::time::Duration;

use typed_nccl::{
    Aborted, Avg, Buffer, CommConfig, Communicator, Device, Error, Host, Mark, PreMulSum, Result,
    Seat, Stream, Sum,
};

/// Generic over the device; no lifetime.
struct Trainer<D: Device> {
    comm: Communicator<D>,
    stream: Stream<D>,
    grads: Buffer<f32, D>,
    sum: Buffer<f32, D>,
    halve: PreMulSum<f32, D>,
    inflight: Vec<Mark<D>>,
}

impl<D: Device> Trainer<D> {
    fn new(mut comm: Communicator<D>) -> Result<Self> {
        let stream = comm.device().stream()?;
        let grads = comm.device().from_slice(&[comm.rank().index() as f32; 8])?;
        let sum = comm.device().zeros(8)?;
        let halve = comm.pre_mul_sum(0.5)?;
        Ok(Self { comm, stream, grads, sum, halve, inflight: Vec::new() })
    }

    fn step(&mut self) -> Result<()> {
        let on = self.comm.on(&self.stream);
        on.all_reduce(&self.grads, &mut self.sum, &self.halve)?;
        on.all_reduce_in_place(&mut self.sum, Avg)?;
        self.inflight.push(self.comm.mark(&self.stream)?);
        // A bound on the steps in flight.
        if self.inflight.len() > 2 {
            self.comm.wait(&self.inflight.remove(0))?;
        }
        Ok(())
    }

    fn run(mut self, steps: usize) -> Result<Vec<f32>, (Error, Communicator<D, Aborted>)> {
        for _ in 0..steps {
            if let Err(error) = self.step() {
                // The buffers and the operator are alive, and operations may be in flight.
                let over = self.comm.abort_because("a step failed");
                drop((self.grads, self.sum, self.halve));
                return Err((error, over));
            }
        }
        let out = match self.sum.to_vec() {
            Ok(out) => out,
            Err(error) => return Err((error, self.comm.abort())),
        };
        match self.comm.try_finish() {
            Ok(_) => Ok(out),
            Err(failed) => Err((failed.error, failed.value.abort())),
        }
    }
}

fn trainer(seat: Seat) -> Trainer<Host<typed_nccl::AnyDevice>> {
    let device = Host::any(seat.rank().index() as u32).expect("a host device");
    let config = CommConfig::builder().deadline(Duration::from_secs(20)).build();
    let comm = Communicator::builder().seat(seat).device(device).config(config).build();
    Trainer::new(comm.connect().expect("init")).expect("memory")
}

#[test]
fn it_moves_between_threads_and_steps() {
    std::thread::scope(|scope| {
        for seat in Seat::local(4) {
            scope.spawn(move || {
                let trainer = trainer(seat);
                let params = std::thread::spawn(move || trainer.run(100)).join().expect("no panic");
                assert_eq!(params.map_err(|(error, _)| error).expect("no error"), [3.0; 8]);
            });
        }
    });
}

#[test]
fn the_error_path_aborts_with_its_buffers_alive_and_the_others_are_told() {
    let (fail, failed) = channel::<()>();
    std::thread::scope(|scope| {
        let mut seats = Seat::local(2);
        let (peer, seat) = (seats.remove(1), seats.remove(0));
        scope.spawn(move || {
            let mut trainer = trainer(seat);
            trainer.step().expect("the peer takes one step");
            trainer.comm.sync(&trainer.stream).expect("it did");
            // Enqueued work that never completes: the peer stops here.
            trainer.step().expect("enqueued");
            // A buffer of another length: refused, and the trainer's error path aborts.
            trainer.grads = trainer.comm.device().zeros(7).expect("memory");
            let (error, over) = trainer.run(1).expect_err("refused");
            assert!(matches!(error, Error::BadLength(_)), "{error:?}");
            let cause = over.cause().expect("aborted");
            assert_eq!((cause.why.as_str(), over.rank().index()), ("a step failed", 0));
            fail.send(()).expect("the peer listens");
        });
        scope.spawn(move || {
            let mut trainer = trainer(peer);
            trainer.step().expect("both take it");
            failed.recv().expect("the peer speaks");
            let (error, _) = trainer.run(10).expect_err("the peer is gone");
            assert!(error.is_peer_failure(), "{error:?}");
            let text = error.to_string();
            assert!(text.contains("rank 0 left: it was aborted"), "{text}");
            assert!(text.contains("a step failed"), "{text}");
        });
    });
}

#[test]
fn it_goes_into_a_mutex_and_a_thread_that_outlives_its_maker() {
    let makers: Vec<_> = Seat::local(2)
        .into_iter()
        .map(|seat| {
            std::thread::spawn(move || {
                let trainer = std::sync::Arc::new(std::sync::Mutex::new(Some(trainer(seat))));
                let theirs = trainer.clone();
                std::thread::spawn(move || {
                    let trainer = theirs.lock().expect("not poisoned").take().expect("there");
                    trainer.run(3).map(|out| out[0]).map_err(|(error, _)| error)
                })
            })
        })
        .collect();
    for maker in makers {
        let runner = maker.join().expect("no panic");
        assert_eq!(runner.join().expect("no panic").expect("no error"), 0.5);
    }
}

#[test]
fn operators_belong_to_their_communicator_and_slots_are_reused() -> Result<()> {
    typed_nccl::spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let mut x = comm.device().from_slice(&[2_i32])?;
        for scale in 1..20 {
            let op = comm.pre_mul_sum(scale)?;
            x.copy_from(&[2])?;
            comm.all_reduce_in_place(&mut x, &op)?;
            drop(op); // in flight: its scalar went with the call
            assert_eq!(x.to_vec()?, [4 * scale]);
        }
        comm.all_reduce_in_place(&mut x, Sum)?;
        comm.finish()
    })
}
