//! The promises every ledger keeps.
