//! A suspended one is resumed, shrunk or aborted.

use std::time::Instant;

use typed_nccl::{Communicator, Host, Invitation, Recovery, Result, Revoked, Suspended};

fn connect(comm: Communicator<Host, Suspended>) -> Result<Communicator<Host>> {
    comm.connect()
}

fn wait(comm: Communicator<Host, Suspended>, until: Instant) -> bool {
    comm.try_ready(until).is_ok()
}

fn work(comm: &Communicator<Host, Suspended>) -> Result<()> {
    comm.barrier()
}

fn invite(comm: &Communicator<Host, Suspended>) -> Result<Invitation> {
    comm.invite(1)
}

fn revoke(comm: Communicator<Host, Suspended>) -> Communicator<Host, Revoked> {
    comm.revoke()
}

fn recover(comm: &mut Communicator<Host, Suspended>) -> Result<Recovery> {
    comm.recover()
}

fn suspend(comm: Communicator<Host, Suspended>) -> Result<Communicator<Host, Suspended>> {
    comm.suspend()
}

fn finish(comm: Communicator<Host, Suspended>) -> Result<()> {
    comm.finish()
}

fn main() {
    _ = (connect, wait, work, invite, revoke, recover, suspend, finish);
}
