//! Migrations: the same numbers and names for both engines, each applied once, each in its own transaction.

use bowline_store::{StoreError, StoreResult};

use crate::db::{Db, PgDb, Sql, SqliteDb, Val};

/// A step from one shape of the ledger to the next.
struct Migration {
    number: i64,
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

const ALL: &[Migration] = &[
    Migration {
        number: 1,
        name: "ledger",
        sqlite: include_str!("migrations/sqlite/0001_ledger.sql"),
        postgres: include_str!("migrations/postgres/0001_ledger.sql"),
    },
    Migration {
        number: 2,
        name: "hosts",
        sqlite: include_str!("migrations/sqlite/0002_hosts.sql"),
        postgres: include_str!("migrations/postgres/0002_hosts.sql"),
    },
    Migration {
        number: 3,
        name: "resources",
        sqlite: include_str!("migrations/sqlite/0003_resources.sql"),
        postgres: include_str!("migrations/postgres/0003_resources.sql"),
    },
    Migration {
        number: 4,
        name: "fleet",
        sqlite: include_str!("migrations/sqlite/0004_fleet.sql"),
        postgres: include_str!("migrations/postgres/0004_fleet.sql"),
    },
    Migration {
        number: 5,
        name: "agents",
        sqlite: include_str!("migrations/sqlite/0005_agents.sql"),
        postgres: include_str!("migrations/postgres/0005_agents.sql"),
    },
    Migration {
        number: 6,
        name: "kept",
        sqlite: include_str!("migrations/sqlite/0006_kept.sql"),
        postgres: include_str!("migrations/postgres/0006_kept.sql"),
    },
    Migration {
        number: 7,
        name: "blocked",
        sqlite: include_str!("migrations/sqlite/0007_blocked.sql"),
        postgres: include_str!("migrations/postgres/0007_blocked.sql"),
    },
    Migration {
        number: 8,
        name: "audit",
        sqlite: include_str!("migrations/sqlite/0008_audit.sql"),
        postgres: include_str!("migrations/postgres/0008_audit.sql"),
    },
    Migration {
        number: 9,
        name: "sealing",
        sqlite: include_str!("migrations/sqlite/0009_sealing.sql"),
        postgres: include_str!("migrations/postgres/0009_sealing.sql"),
    },
    Migration {
        number: 10,
        name: "flow",
        sqlite: include_str!("migrations/sqlite/0010_flow.sql"),
        postgres: include_str!("migrations/postgres/0010_flow.sql"),
    },
    Migration {
        number: 11,
        name: "schedule",
        sqlite: include_str!("migrations/sqlite/0011_schedule.sql"),
        postgres: include_str!("migrations/postgres/0011_schedule.sql"),
    },
    Migration {
        number: 12,
        name: "email",
        sqlite: include_str!("migrations/sqlite/0012_email.sql"),
        postgres: include_str!("migrations/postgres/0012_email.sql"),
    },
    Migration {
        number: 13,
        name: "turns",
        sqlite: include_str!("migrations/sqlite/0013_turns.sql"),
        postgres: include_str!("migrations/postgres/0013_turns.sql"),
    },
    Migration {
        number: 14,
        name: "quotas",
        sqlite: include_str!("migrations/sqlite/0014_quotas.sql"),
        postgres: include_str!("migrations/postgres/0014_quotas.sql"),
    },
    Migration {
        number: 15,
        name: "approvals",
        sqlite: include_str!("migrations/sqlite/0015_approvals.sql"),
        postgres: include_str!("migrations/postgres/0015_approvals.sql"),
    },
    Migration {
        number: 16,
        name: "admission",
        sqlite: include_str!("migrations/sqlite/0016_admission.sql"),
        postgres: include_str!("migrations/postgres/0016_admission.sql"),
    },
    Migration {
        number: 17,
        name: "truth",
        sqlite: include_str!("migrations/sqlite/0017_truth.sql"),
        postgres: include_str!("migrations/postgres/0017_truth.sql"),
    },
    Migration {
        number: 18,
        name: "tokens",
        sqlite: include_str!("migrations/sqlite/0018_tokens.sql"),
        postgres: include_str!("migrations/postgres/0018_tokens.sql"),
    },
    Migration {
        number: 19,
        name: "lists",
        sqlite: include_str!("migrations/sqlite/0019_lists.sql"),
        postgres: include_str!("migrations/postgres/0019_lists.sql"),
    },
    Migration {
        number: 20,
        name: "actors",
        sqlite: include_str!("migrations/sqlite/0020_actors.sql"),
        postgres: include_str!("migrations/postgres/0020_actors.sql"),
    },
    Migration {
        number: 21,
        name: "heartbeats",
        sqlite: include_str!("migrations/sqlite/0021_heartbeats.sql"),
        postgres: include_str!("migrations/postgres/0021_heartbeats.sql"),
    },
    Migration {
        number: 24,
        name: "deadline",
        sqlite: include_str!("migrations/sqlite/0024_deadline.sql"),
        postgres: include_str!("migrations/postgres/0024_deadline.sql"),
    },
    Migration {
        number: 27,
        name: "decisions",
        sqlite: include_str!("migrations/sqlite/0027_decisions.sql"),
        postgres: include_str!("migrations/postgres/0027_decisions.sql"),
    },
    Migration {
        number: 29,
        name: "remembered",
        sqlite: include_str!("migrations/sqlite/0029_remembered.sql"),
        postgres: include_str!("migrations/postgres/0029_remembered.sql"),
    },
    Migration {
        number: 30,
        name: "signal",
        sqlite: include_str!("migrations/sqlite/0030_signal.sql"),
        postgres: include_str!("migrations/postgres/0030_signal.sql"),
    },
    Migration {
        number: 34,
        name: "agents",
        sqlite: include_str!("migrations/sqlite/0034_agents.sql"),
        postgres: include_str!("migrations/postgres/0034_agents.sql"),
    },
    Migration {
        number: 35,
        name: "owners",
        sqlite: include_str!("migrations/sqlite/0035_owners.sql"),
        postgres: include_str!("migrations/postgres/0035_owners.sql"),
    },
    Migration {
        number: 36,
        name: "quorum",
        sqlite: include_str!("migrations/sqlite/0036_quorum.sql"),
        postgres: include_str!("migrations/postgres/0036_quorum.sql"),
    },
    Migration {
        number: 37,
        name: "told_bytes",
        sqlite: include_str!("migrations/sqlite/0037_told_bytes.sql"),
        postgres: include_str!("migrations/postgres/0037_told_bytes.sql"),
    },
    Migration {
        number: 38,
        name: "keys_of_job",
        sqlite: include_str!("migrations/sqlite/0038_keys_of_job.sql"),
        postgres: include_str!("migrations/postgres/0038_keys_of_job.sql"),
    },
    Migration {
        number: 39,
        name: "source",
        sqlite: include_str!("migrations/sqlite/0039_source.sql"),
        postgres: include_str!("migrations/postgres/0039_source.sql"),
    },
    Migration {
        number: 40,
        name: "live",
        sqlite: include_str!("migrations/sqlite/0040_live.sql"),
        postgres: include_str!("migrations/postgres/0040_live.sql"),
    },
];

const APPLIED: Sql = Sql::Same("select number from migration order by number");
const NOTE: Sql = Sql::Same("insert into migration (number, name) values ($1, $2)");

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    pub applied: Vec<String>,
    pub version: i64,
}

fn pending(applied: &[i64], make: bool) -> StoreResult<Vec<&'static Migration>> {
    if let Some(newer) = applied.iter().find(|n| ALL.iter().all(|m| m.number != **n)) {
        let text = format!("this ledger has migration {newer}, which this version does not know; use a newer version");
        return Err(StoreError::Broken(text));
    }
    let pending: Vec<_> = ALL.iter().filter(|m| !applied.contains(&m.number)).collect();
    match (make || pending.is_empty(), applied.is_empty()) {
        (true, _) => Ok(pending),
        (false, true) => Err(StoreError::Unavailable("there is no ledger in this database".to_owned())),
        (false, false) => {
            Err(StoreError::Broken("this ledger is of an older version; `bowline migrate` first".to_owned()))
        }
    }
}

fn done(applied: Vec<String>) -> Migrated {
    Migrated { applied, version: ALL.last().map_or(0, |m| m.number) }
}

pub async fn sqlite(db: &mut SqliteDb, make: bool) -> StoreResult<Migrated> {
    db.script("create table if not exists migration (number integer primary key, name text not null)")?;
    let applied = db.query(APPLIED, &[], |row| row.int(0)).await?;
    let mut names = Vec::new();
    for migration in pending(&applied, make)? {
        db.script("begin immediate")?;
        let step = async {
            db.script(migration.sqlite)?;
            db.execute(NOTE, &[Val::Int(migration.number), Val::Text(migration.name)]).await?;
            db.script("commit")
        }
        .await;
        if step.is_err() {
            db.rollback().await;
        }
        step?;
        names.push(migration.name.to_owned());
    }
    Ok(done(names))
}

pub async fn postgres(db: &mut PgDb, make: bool) -> StoreResult<Migrated> {
    // Two servers may start at once; the second waits and finds everything done.
    db.script("begin; select pg_advisory_xact_lock(762390471)").await?;
    let step = async {
        db.script("create table if not exists migration (number bigint primary key, name text not null)").await?;
        let applied = db.query(APPLIED, &[], |row| row.int(0)).await?;
        let mut names = Vec::new();
        for migration in pending(&applied, make)? {
            db.script(migration.postgres).await?;
            db.execute(NOTE, &[Val::Int(migration.number), Val::Text(migration.name)]).await?;
            names.push(migration.name.to_owned());
        }
        db.script("commit").await?;
        Ok(names)
    }
    .await;
    if step.is_err() {
        db.rollback().await;
    }
    step.map(done)
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;
    use bowline_store::ManualClock;

    use super::*;

    const RECORDS: Sql = Sql::Same("select flow, turn, records from flow_turn order by flow, turn");
    const BODIES: Sql = Sql::Same("select flow, turn, body from flow_snapshot order by flow, turn");

    async fn rows(db: &mut SqliteDb, what: Sql) -> Vec<(i64, i64, String)> {
        db.query(what, &[], |row| Ok((row.int(0)?, row.int(1)?, row.text(2)?))).await.expect("rows")
    }

    #[test]
    fn only_who_may_makes_or_changes_a_ledger() {
        let all: Vec<i64> = ALL.iter().map(|migration| migration.number).collect();
        let older = &all[..all.len() - 1];
        let count = |applied: &[i64], make| pending(applied, make).map(|pending| pending.len());
        assert_eq!((count(&all, true), count(&all, false)), (Ok(0), Ok(0)), "there is nothing to do");
        assert_eq!((count(older, true), count(&[], true)), (Ok(1), Ok(all.len())));
        let none = count(&[], false);
        assert!(matches!(&none, Err(StoreError::Unavailable(why)) if why.contains("there is no ledger")), "{none:?}");
        let old = count(older, false);
        assert!(matches!(&old, Err(StoreError::Broken(why)) if why.contains("bowline migrate")), "{old:?}");
        for make in [true, false] {
            let newer = count(&[&all[..], &[9_999]].concat(), make);
            assert!(matches!(&newer, Err(StoreError::Broken(why)) if why.contains("9999")), "{newer:?}");
        }
    }

    #[tokio::test]
    async fn what_runs_did_outlives_the_change_of_its_tables() {
        let mut db = SqliteDb::open_memory(ManualClock::at(Timestamp::from_micros(0))).expect("a ledger in memory");
        db.script("create table migration (number integer primary key, name text not null)").expect("a table");
        for older in ALL.iter().filter(|migration| migration.number < 13) {
            db.script(older.sqlite).expect("an older version");
            db.execute(NOTE, &[Val::Int(older.number), Val::Text(older.name)]).await.expect("a note");
        }
        let long = "x".repeat(10_000);
        db.script(&format!(
            "insert into flow_turn values (7, 2, 3, 4, 50, '{long}'), (7, 1, 1, 2, 40, '[]'), (3, 1, 1, 9, 45, '[1]');
             insert into flow_snapshot values (7, 2, 4, '{long}');"
        ))
        .expect("runs of an older version");
        let migrated = sqlite(&mut db, true).await.expect("it is brought up to date");
        assert_eq!(migrated.applied.first().map(String::as_str), Some("turns"));
        let expected = [(3, 1, "[1]".to_owned()), (7, 1, "[]".to_owned()), (7, 2, long.clone())];
        assert_eq!(rows(&mut db, RECORDS).await, expected);
        assert_eq!(rows(&mut db, BODIES).await, [(7, 2, long)]);
        // A turn is still there once.
        db.script("insert into flow_turn values (7, 2, 3, 4, 51, '[]')").expect_err("a turn that is there");
    }
}
