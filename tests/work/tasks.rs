//! Requests of tasks: `Ordered` on a runtime with one thread, however many are in flight.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::runtime::Builder;
use typed_nccl::{AnyDevice, Communicator, Error, Host, Ordered, Result, Sum};

use super::service::{finish, serve};
use super::{LIMIT, two};

const REQUESTS: u64 = 300;

#[test]
fn more_requests_than_threads_in_another_order_on_each_rank() -> Result<()> {
    let ended = two(LIMIT, |comm| {
        let backwards = comm.rank().index() == 1;
        let service = Arc::new(Ordered::new(comm)?);
        match backwards {
            true => serve(&service, (0..REQUESTS).rev())?,
            false => serve(&service, 0..REQUESTS)?,
        }
        finish(service)
    });
    ended.into_iter().collect()
}

#[test]
fn threads_of_one_rank_and_tasks_of_another() -> Result<()> {
    let ended = two(LIMIT, |comm| {
        let by_threads = comm.rank().index() == 0;
        let service = Arc::new(Ordered::new(comm)?);
        if !by_threads {
            serve(&service, (0..8).rev())?;
            return finish(service);
        }
        for request in 0..8_u64 {
            let mut x = service.device().from_slice(&[request])?;
            service.submit(request, |comm| comm.all_reduce_in_place(&mut x, Sum))?;
            assert_eq!(x.to_vec()?, [2 * request + 1000]);
        }
        finish(service)
    });
    ended.into_iter().collect()
}

/// A communicator and a poll of a request that the other rank has not made.
fn poll_once(
    ordered: &Ordered<Host<AnyDevice>>,
    call: impl FnOnce(&mut Communicator<Host<AnyDevice>>) -> Result<()>,
) {
    let mut request = pin!(ordered.submit_async("k", call));
    let first = request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(first, Poll::Pending), "the other rank has not submitted it");
}

#[test]
fn a_task_that_is_dropped_before_its_turn_is_told_to_all() {
    let ended = two(LIMIT, |comm| {
        let drops = comm.rank().index() == 1;
        let ordered = Ordered::new(comm)?;
        if drops {
            poll_once(&ordered, |_| Err(Error::other("it is never called")));
            return ordered.submit("another", |_| Ok(()));
        }
        ordered.submit("other", |_| Ok(()))
    });
    for outcome in ended {
        let error = outcome.expect_err("a request is missing");
        let text = error.to_string();
        assert!(text.contains("the task of the request `k` was dropped before its turn"), "{text}");
    }
}

#[test]
fn a_rank_that_ends_does_not_keep_tasks_waiting() {
    let ended = two(LIMIT, |comm| {
        let ends = comm.rank().index() == 1;
        let ordered = Ordered::new(comm)?;
        if ends {
            return ordered.into_inner().finish();
        }
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let error = runtime.block_on(ordered.submit_async("k", |_| Ok(())));
        let text = error.expect_err("nobody else submits it").to_string();
        assert!(text.contains("it takes no more requests"), "{text}");
        ordered.into_inner().abort();
        Ok(())
    });
    ended[0].as_ref().expect("it is told");
}

#[test]
fn a_request_that_fails_in_a_task_is_told_to_all() {
    let ended = two(LIMIT, |comm| {
        let fails = comm.rank().index() == 1;
        let service = Arc::new(Ordered::new(comm)?);
        if !fails {
            return serve(&service, 0..4);
        }
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(service.submit_async(0, |_| Err(Error::other("no such model"))))
    });
    for outcome in ended {
        let text = outcome.expect_err("it failed").to_string();
        assert!(text.contains("no such model"), "{text}");
    }
}
