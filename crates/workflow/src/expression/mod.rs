//! `{{ … }}`: small, total, and evaluated once.
