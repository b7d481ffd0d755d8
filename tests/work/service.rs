//! A service on a runtime of one thread, for ranks that get requests in different orders.

use std::sync::Arc;

use tokio::runtime::Builder;
use typed_nccl::{AnyDevice, Host, Ordered, Result, Sum};

pub(crate) type Service = Arc<Ordered<Host<AnyDevice>>>;

/// The sum over the ranks, of a request whose numbers differ from all others'.
async fn sum(service: Service, request: u64) -> Result<()> {
    let own = request + 1000 * service.rank().index() as u64;
    let mut x = service.device().from_slice(&[own])?;
    let work = service.submit_async(request, |comm| {
        comm.all_reduce_in_place(&mut x, Sum)?;
        comm.submitted()
    });
    work.await?.await?;
    assert_eq!(x.to_vec()?, [2 * request + 1000]);
    Ok(())
}

/// Serves all requests at once, on this thread.
pub(crate) fn serve(service: &Service, requests: impl Iterator<Item = u64>) -> Result<()> {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let tasks: Vec<_> =
            requests.map(|request| tokio::spawn(sum(service.clone(), request))).collect();
        for task in tasks {
            task.await.expect("no panic")?;
        }
        Ok(())
    })
}

pub(crate) fn finish(service: Service) -> Result<()> {
    Arc::into_inner(service).expect("all tasks are over").finish()
}
