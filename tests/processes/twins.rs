//! Mistakes between two ranks, as processes and as threads, from one source: both get the same
//! errors.

use std::thread;
use std::time::Duration;

use typed_nccl::{
    CommConfig, Communicator, Device, Error, Ordered, Result, Sum, World, launch, tag,
};

use crate::machine::{Test, lines, wait};

tag!(Twin, Shared);

pub(crate) const TESTS: &[Test] = &[Test {
    name: "two_ranks_as_processes_and_as_threads",
    program: || launch!(all),
    test: |run| {
        // Both at once, as most of the time is waiting.
        let started = ["cuda:2", "cuda-threads:2"].map(|kind| {
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", kind);
            (kind, command.spawn().expect("the program starts"))
        });
        for (kind, child) in started {
            let ended = wait(child);
            let well = lines(&ended.stdout).iter().filter(|line| line.ends_with("well")).count();
            assert!(ended.status.success() && well == 2, "{kind}: {ended:?}");
        }
    },
}];

/// Each on its own communicator, and all at once.
fn all<D: Device>(mut world: Communicator<D>) -> Result<()> {
    let patience = |seconds| CommConfig::builder().deadline(Duration::from_secs(seconds)).build();
    let mut child = |seconds| world.split_with::<Twin>(0, 0, patience(seconds));
    let (first, second) = (child(5)?, child(5)?);
    let impatient = [child(5)?, child(5)?, child(5)?];
    let patient = [child(60)?, child(60)?, child(60)?, child(60)?];
    thread::scope(|scope| {
        scope.spawn(|| opposite_first_operations(first, second));
        let [a, b, c] = impatient;
        scope.spawn(|| an_operation_that_one_rank_does_not_call(a));
        scope.spawn(|| a_barrier_to_which_one_rank_does_not_come(b));
        scope.spawn(|| requests_with_other_keys(c));
        let [a, b, c, d] = patient;
        scope.spawn(|| a_request_that_fails(a));
        scope.spawn(|| a_rank_that_takes_no_more_requests(b));
        scope.spawn(|| an_abort_handle(c));
        scope.spawn(|| the_parent_of_a_shared_child(d));
    });
    // They were owned: the parent continues.
    world.barrier()?;
    println!("rank {}: all is well", world.rank());
    world.finish()
}

fn is_first<W: World>(comm: &Communicator<W>) -> bool {
    comm.rank().index() == 0
}

#[track_caller]
fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

/// The error from elsewhere, as soon as this rank learns of it.
fn heard<W: World>(comm: &Communicator<W>) -> Error {
    loop {
        match comm.health() {
            Ok(_) => thread::sleep(Duration::from_millis(1)),
            Err(error) => return error,
        }
    }
}

/// NCCL connects ranks in their first operation and blocks its caller: here each waits for the
/// other.
fn opposite_first_operations<W: World>(first: Communicator<W>, second: Communicator<W>) {
    let mut x = first.device().from_slice(&[1_i32; 10]).expect("memory");
    let order = if is_first(&first) { [&first, &second] } else { [&second, &first] };
    let called = order.into_iter().try_for_each(|comm| comm.all_reduce_in_place(&mut x, Sum));
    let error = called.and_then(|()| x.to_vec().map(drop)).expect_err("a deadlock");
    says(&error, &["all_reduce of 10 i32, Sum, at tests/processes/twins.rs:"]);
}

fn an_operation_that_one_rank_does_not_call<W: World>(comm: Communicator<W>) {
    let mut x = comm.device().from_slice(&[1_i32; 10]).expect("memory");
    comm.all_reduce_in_place(&mut x, Sum).expect("both call it");
    comm.sync(comm.stream()).expect("both called it");
    if !is_first(&comm) {
        return says(&heard(&comm), &["rank 0 left", "timeout: to_vec"]);
    }
    comm.all_reduce_in_place(&mut x, Sum).expect("it is enqueued");
    let error = x.to_vec().expect_err("rank 1 does not call it");
    assert!(matches!(error, Error::Timeout(_)), "{error}");
    says(&error, &["rank 0, 2 collectives so far", "rank 1, 1 collective so far"]);
    says(&error, &["all_reduce of 10 i32, Sum, at tests/processes/twins.rs:"]);
}

fn a_barrier_to_which_one_rank_does_not_come<W: World>(comm: Communicator<W>) {
    comm.barrier().expect("both come");
    if !is_first(&comm) {
        return says(&heard(&comm), &["rank 0 left", "timeout: barrier"]);
    }
    let error = comm.barrier().expect_err("rank 1 does not come");
    assert!(matches!(error, Error::Timeout(_)), "{error}");
    says(&error, &["timeout: barrier (at tests/processes/twins.rs:", "rank 1"]);
}

fn requests_with_other_keys<W: World>(comm: Communicator<W>) {
    let key = if is_first(&comm) { "grads/17" } else { "grads/18" };
    let ordered = Ordered::new(comm).expect("both order");
    let error = ordered.submit(key, |_| Ok(())).expect_err("the other has another");
    // Whose deadline passes first is chance; the other learns of it.
    let named = [
        "rank 1 has not submitted `grads/17`; rank 1 waits with `grads/18` (at tests/processes/twins.rs:",
        "rank 0 has not submitted `grads/18`; rank 0 waits with `grads/17` (at tests/processes/twins.rs:",
    ];
    let text = error.to_string();
    assert!(named.iter().any(|named| text.contains(named)), "{text}");
    assert!(ordered.submit("more", |_| Ok(())).is_err());
}

fn a_request_that_fails<W: World>(comm: Communicator<W>) {
    let (fails, mut x) = (!is_first(&comm), comm.device().from_slice(&[1]).expect("memory"));
    let ordered = Ordered::new(comm).expect("both order");
    let save = |comm: &mut Communicator<W>| match fails {
        true => Err(Error::other("disk full")),
        false => comm.all_reduce_in_place(&mut x, Sum),
    };
    let outcome = ordered.submit("save", save).and_then(|()| x.to_vec());
    let error = outcome.expect_err("rank 1 fails");
    match fails {
        true => says(&error, &["disk full"]),
        false => says(&error, &["the request `save` failed on rank 1: disk full"]),
    }
}

fn a_rank_that_takes_no_more_requests<W: World>(comm: Communicator<W>) {
    let goes = !is_first(&comm);
    let ordered = Ordered::new(comm).expect("both order");
    if goes {
        return drop(ordered.into_inner());
    }
    let error = ordered.submit("loss", |_| Ok(())).expect_err("rank 1 does not come");
    says(&error, &["the request `loss`, which rank 0 submitted (at tests/processes/twins.rs:"]);
    says(&error, &["and rank 1 did not", "rank 1 left: it takes no more requests"]);
}

fn an_abort_handle<W: World>(comm: Communicator<W>) {
    if !is_first(&comm) {
        let error = heard(&comm);
        assert!(error.is_peer_failure(), "{error}");
        return says(&error, &["rank 0 left", "no progress"]);
    }
    let handle = comm.abort_handle();
    let mut x = comm.device().from_slice(&[1]).expect("memory");
    let watchdog = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        handle.abort("no progress")
    });
    // It may come while NCCL connects the ranks.
    let called = comm.all_reduce_in_place(&mut x, Sum).and_then(|()| x.to_vec());
    let error = called.expect_err("rank 1 never calls");
    assert!(matches!(error, Error::Abort(_)), "{error}");
    says(&error, &["no progress", "tests/processes/twins.rs:"]);
    assert!(watchdog.join().expect("no panic"), "the request was the first");
}

fn the_parent_of_a_shared_child<W: World>(mut comm: Communicator<W>) {
    let (goes, handle) = (!is_first(&comm), comm.abort_handle());
    let child = comm.split_shared::<Shared>(0, 0).expect("both split");
    child.barrier().expect("both come");
    if goes {
        assert!(handle.abort("the parent goes"));
    }
    says(&child.barrier().expect_err("its parent goes"), &["the parent goes"]);
    drop(child);
    says(&heard(&comm), &["the parent goes"]);
}
