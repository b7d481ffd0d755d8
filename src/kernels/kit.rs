//! What a communicator needs for kernels: made once, by all ranks or by none.

use crate::Result;
use crate::backend::{Backend, KernelOffer};
use crate::communicator::Core;
use crate::control::Topic;
use crate::error::{Error, Site, Unsupported};

/// What a rank says of itself.
type Said = Result<Option<KernelOffer>, String>;

impl<B: Backend> Core<B> {
    /// What the ranks' kernels have in common; none where the device has no kernels, and collectives of its
    /// own do the same. All ranks call it; the first time, the host waits for them.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on all ranks: one of them lacks something. A lost peer; a passed deadline.
    pub(crate) fn kit(&self, operation: Topic, site: Site) -> Result<Option<KernelOffer>> {
        self.health.check()?;
        if let Some(kit) = self.kit.get() {
            return Ok(*kit);
        }
        self.may_wait(operation, site)?;
        // NCCL registers memory for them: not beside an operation of the communicator.
        let drained = self.drained(operation, site);
        let own = drained.and_then(|()| B::offer_kernels(self.comm()?));
        let said: Said = own.as_ref().map(|offer| *offer).map_err(ToString::to_string);
        let all: Vec<Option<Said>> = self.tell(&said, operation, site)?;
        let offer = own?;
        let Some(all) = all.into_iter().collect::<Option<Result<Vec<_>, _>>>() else {
            return Err(lacking("its part does not read".to_owned()));
        };
        let all = all.map_err(lacking)?;
        let least = all.into_iter().reduce(|a, b| {
            let (a, b) = (a?, b?);
            Some(KernelOffer { blocks: a.blocks.min(b.blocks) })
        });
        let kit = least.flatten().filter(|_| offer.is_some());
        if let Some(agreed) = kit {
            B::make_kernels(self.comm()?, agreed)?;
            // Nobody launches before all of them have theirs.
            self.tell(&(), operation, site)?;
        }
        Ok(*self.kit.get_or_init(|| kit))
    }

    /// Every rank's part, by rank; none of one that does not read.
    fn tell<V: serde::Serialize + serde::de::DeserializeOwned>(
        &self,
        part: &V,
        operation: Topic,
        site: Site,
    ) -> Result<Vec<Option<V>>> {
        // Numbers and strings always encode.
        let part = postcard::to_stdvec(part).unwrap_or_default();
        let ticket = self.control()?.post(operation, site, part);
        let parts = self.collect(ticket, operation, site)?;
        Ok(parts.iter().map(|part| postcard::from_bytes(part).ok()).collect())
    }
}

/// Another rank lacks something.
#[cold]
fn lacking(why: String) -> Error {
    Error::Unsupported(Box::new(Unsupported {
        what: "kernels of this library".to_owned(),
        needs: "all ranks to have what they take".to_owned(),
        found: format!("another rank has not: {why}"),
    }))
}
