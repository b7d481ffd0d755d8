//! Ownership of the memory, and its duration.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use typed_nccl::interop::dlpack::{
    self, DLManagedTensor, DLManagedTensorVersioned, Layout, Managed,
};
use typed_nccl::{Error, ForeignMemory, Host, Sum};

use super::foreign::{Consumer, Foreign, Form, import, versioned};
use super::{Dev, PATIENCE};

#[test]
fn the_deleter_is_called_once_wherever_it_ends() {
    fn of<F: Form>() {
        let floats = || Foreign::floats(&[4], &[1.0; 4]);
        let device = Dev::any(0).expect("a device");
        // Dropped, here and on another thread.
        let (tensor, deleted) = import::<F>(floats());
        drop(tensor.expect("floats"));
        assert_eq!(deleted.load(SeqCst), 1);
        let (tensor, deleted) = import::<F>(floats());
        let tensor = tensor.expect("floats");
        thread::spawn(move || drop(tensor)).join().expect("no panic");
        assert_eq!(deleted.load(SeqCst), 1);
        // Through a buffer, and given back.
        let (tensor, deleted) = import::<F>(floats());
        let buffer = tensor.expect("floats").on(&device).expect("on the host");
        assert_eq!(deleted.load(SeqCst), 0);
        let managed: Managed = buffer.into_inner().expect("nothing uses it");
        assert_eq!(deleted.load(SeqCst), 0);
        drop(managed);
        assert_eq!(deleted.load(SeqCst), 1);
        // After an error, and without a deleter.
        let (outcome, deleted) = import::<F>(Foreign { offset: 1, ..floats() });
        assert!(outcome.is_err());
        assert_eq!(deleted.load(SeqCst), 1);
        let (tensor, deleted) = import::<F>(Foreign { deletes: false, ..floats() });
        drop(tensor.expect("floats"));
        assert_eq!(deleted.load(SeqCst), 0);
    }
    of::<DLManagedTensor>();
    of::<DLManagedTensorVersioned>();
}

#[test]
fn the_deleter_waits_for_what_uses_the_memory() {
    let device = Dev::any(0).expect("a device");
    let stream = device.stream().expect("a stream");
    let (tensor, deleted) = import::<DLManagedTensorVersioned>(Foreign::floats(&[4], &[1.0; 4]));
    let buffer = tensor.expect("floats").on(&device).expect("on the host");
    let mut buffer = buffer.typed::<f32>().expect("f32");
    let (opens, open) = channel::<()>();
    let (tells, told) = channel();
    let launched = stream.launch(&mut buffer, move |x, ()| {
        open.recv().expect("opened");
        x[0] = 2.0;
        tells.send(x[0]).expect("heard");
    });
    launched.expect("enqueued");
    drop(buffer);
    assert_eq!(deleted.load(SeqCst), 0, "something is going to use it");
    opens.send(()).expect("it waits");
    assert_eq!(told.recv_timeout(PATIENCE).expect("it ran"), 2.0);
    stream.sync().expect("no error");
    let started = Instant::now();
    while deleted.load(SeqCst) == 0 {
        assert!(started.elapsed() < PATIENCE, "it is never deleted");
        thread::yield_now();
    }
    assert_eq!(deleted.load(SeqCst), 1);
}

#[test]
fn all_reduce_on_imported_memory() {
    let ranks = Host::spmd(2, |place| {
        let comm = place.init()?;
        let device = comm.device().clone();
        let mine = f32::from(comm.rank().index() as u8) + 1.0;
        let x = versioned(Foreign::floats(&[2, 3], &[mine; 6]))?;
        // With strides, and not at the start of its memory.
        let mut y = Foreign::floats(&[3, 2], &[0.0; 8]);
        (y.strides, y.offset) = (Some(vec![2, 1]), 8);
        let (mut y, _) = import::<DLManagedTensor>(y);
        let y = y.as_mut().expect("dense");
        let at = y.address();
        device.lend((&x, &mut *y), |(x, y)| comm.all_reduce(x, y, Sum))?;
        // SAFETY: the loan is over, and the tensor's six floats exist.
        let sums = unsafe { std::slice::from_raw_parts(at as *const f32, 6) };
        assert_eq!(sums, [3.0; 6]);
        // As buffers, in place.
        let mut x = x.on(&device).map_err(Error::from)?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        assert_eq!(x.typed::<f32>()?.to_vec()?, [3.0; 6]);
        comm.finish()
    });
    ranks.expect("no error");
}

/// Counts its drops.
struct Counted(Vec<i32>, Arc<AtomicUsize>);

// SAFETY: the vector's own elements; nobody else touches them.
unsafe impl ForeignMemory<Dev> for Counted {
    type Elem = i32;

    fn start(&mut self) -> *mut i32 {
        self.0.as_mut_ptr()
    }

    fn elements(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, SeqCst);
    }
}

#[test]
fn the_memory_goes_back_when_the_consumer_deletes_it() {
    struct Sent(Consumer<DLManagedTensor>);
    // SAFETY: a consumer may call the deleter on any thread.
    unsafe impl Send for Sent {}
    let device = Dev::any(0).expect("a device");
    let drops = Arc::new(AtomicUsize::new(0));
    let export = || {
        let x = device.adopt(Counted(vec![1, 2, 3], drops.clone())).expect("memory");
        dlpack::export(x, &[3], Layout::C).expect("all three")
    };
    drop(export());
    assert_eq!(drops.load(SeqCst), 1, "it was not handed over");
    let sent = Sent(Consumer(export().to_raw().expect("nothing uses it")));
    assert_eq!(drops.load(SeqCst), 1);
    thread::spawn(move || drop({ sent }.0)).join().expect("no panic");
    assert_eq!(drops.load(SeqCst), 2);
    // Imported again, and in a buffer: it lives as long as anything refers to it.
    let raw = export().to_raw::<DLManagedTensorVersioned>().expect("nothing uses it");
    // SAFETY: nothing else has it.
    let buffer = unsafe { dlpack::import(raw) }.expect("ours").on(&device).expect("the host's");
    assert_eq!(drops.load(SeqCst), 2);
    drop(buffer);
    assert_eq!(drops.load(SeqCst), 3);
}
