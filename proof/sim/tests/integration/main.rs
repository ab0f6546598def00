//! Tests of the simulated cluster, one program so that what they share is compiled once.

mod bundles;
mod by_hand;
mod closing;
mod eviction;
mod far_files;
mod followers;
mod migrations;
mod migrations_seen;
mod mounts;
mod moves;
mod moves_seen;
mod peers;
mod second_tries;
mod seeds;
mod splits;
mod splits_seen;
mod stripes;
mod stripes_seen;
mod tickets;
mod unmounting;
