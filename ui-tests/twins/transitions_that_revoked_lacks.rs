//! Each of these asks for the state that has it.

use std::time::Instant;

use typed_nccl::{
    AbortHandle, Communicator, Host, Initializing, Invitation, MemoryStats, Recovery, Result,
    Revoked, Suspended, Uninit,
};

fn connect(comm: Communicator<Host, Uninit>) -> Result<Communicator<Host>> {
    comm.connect()
}

fn wait(comm: Communicator<Host, Initializing>, until: Instant) -> bool {
    comm.try_ready(until).is_ok()
}

fn work(comm: &Communicator<Host>) -> Result<()> {
    comm.barrier()
}

fn invite(comm: &Communicator<Host>) -> Result<Invitation> {
    comm.invite(1)
}

fn revoke(comm: Communicator<Host>) -> Communicator<Host, Revoked> {
    comm.revoke()
}

fn recover(comm: &mut Communicator<Host>) -> Result<Recovery> {
    comm.recover()
}

fn suspend(comm: Communicator<Host>) -> Result<Communicator<Host, Suspended>> {
    comm.suspend()
}

fn resume(comm: Communicator<Host, Suspended>) -> Result<Communicator<Host>> {
    comm.resume()
}

fn memory(comm: &Communicator<Host, Suspended>) -> Result<MemoryStats> {
    comm.memory_stats()
}

fn finish(comm: Communicator<Host>) -> Result<()> {
    comm.finish()
}

fn handle(comm: &Communicator<Host>) -> AbortHandle {
    comm.abort_handle()
}

fn main() {
    _ = (connect, wait, work, invite, revoke, recover, suspend, resume, memory, finish, handle);
}
