//! Promises about tenants and tokens: who exists, and what they hold.

use bowline_model::{EventKind, TenantId};

use super::bench::Bench;
use crate::{EventFilter, RevokeToken, RevokedTokens, Tenant, TokenRecord};

/// A token of our tenant.
pub(super) fn token(bench: &Bench, id: &str) -> TokenRecord {
    TokenRecord {
        labels: Default::default(),
        admission: Default::default(),
        used_at: None,
        id: id.to_owned(),
        kind: "api".to_owned(),
        tenant: Some(bench.tenant),
        name: "ci".to_owned(),
        secret_hash: [7; 32],
        scopes: "jobs:read jobs:write".to_owned(),
        audiences: "exec control".to_owned(),
        email: Some("ann@example.com".to_owned()),
        made_by: Some("root".to_owned()),
        person: Some("mail:ann@example.com".to_owned()),
        created_at: bench.now(),
        expires_at: Some(bench.now().plus_millis(1_000)),
        revoked_at: None,
    }
}

async fn create(bench: &Bench, token: TokenRecord) -> bool {
    bench.ledger.create_token(token, "ann".into()).await.expect("the ledger takes tokens")
}

async fn find(bench: &Bench, id: &str) -> Option<TokenRecord> {
    bench.ledger.find_token(id.to_owned()).await.expect("the ledger can be read")
}

async fn revoke(bench: &Bench, id: &str, tenant: Option<TenantId>) -> bool {
    revoke_all(bench, id, tenant, false).await.is_some()
}

pub(super) async fn revoke_all(
    bench: &Bench,
    id: &str,
    tenant: Option<TenantId>,
    with_workers: bool,
) -> Option<RevokedTokens> {
    let order = RevokeToken { id: id.to_owned(), tenant, with_workers };
    bench.ledger.revoke_token(order, "bob".into()).await.expect("the ledger takes orders")
}

/// The tokens of a family: who made whom, by id, and what kind they are.
async fn family(bench: &Bench, members: &[(&str, &str, &str)]) {
    for (id, kind, maker) in members {
        let made_by = Some((*maker).to_owned()).filter(|maker| !maker.is_empty());
        let token = TokenRecord { kind: (*kind).to_owned(), made_by, ..token(bench, id) };
        assert!(create(bench, token).await, "{id}");
        bench.pass_ms(1);
    }
}

fn ids(tokens: &[TokenRecord]) -> Vec<&str> {
    tokens.iter().map(|token| token.id.as_str()).collect()
}

/// Security: what somebody handed on with a token ends with it, over all generations, and only that.
pub async fn tokens_end_with_the_one_they_were_made_with(bench: &Bench) {
    let members = [
        ("root", "api", ""),
        ("child", "api", "root"),
        ("grandchild", "api", "child"),
        ("other", "api", "root"),
        ("stranger", "api", ""),
    ];
    family(bench, &members).await;
    let revoked_at = bench.now();
    let revoked = revoke_all(bench, "child", Some(bench.tenant), false).await.expect("it is revoked");
    assert_eq!(
        (revoked.token.id.as_str(), ids(&revoked.also), ids(&revoked.remaining)),
        ("child", vec!["grandchild"], vec![])
    );
    for (id, ended) in [("root", false), ("child", true), ("grandchild", true), ("other", false), ("stranger", false)] {
        assert_eq!(find(bench, id).await.and_then(|token| token.revoked_at), ended.then_some(revoked_at), "{id}");
    }
    assert!(!revoke(bench, "child", None).await, "nothing is left of it");
    let revoked = revoke_all(bench, "root", None, false).await.expect("it is revoked");
    assert_eq!(ids(&revoked.also), ["other"], "those that had ended are not told again");
}

/// Agents and workers do the work of many people: they outlive the token they were made with, unless it is asked for.
pub async fn workers_outlive_the_token_they_were_made_with(bench: &Bench) {
    let members = [
        ("root", "api", ""),
        ("worker", "wrk", "root"),
        ("join", "joi", "root"),
        ("agent", "wrk", "join"),
        ("api", "api", "root"),
    ];
    family(bench, &members).await;
    let revoked = revoke_all(bench, "root", None, false).await.expect("it is revoked");
    assert_eq!(ids(&revoked.also), ["api"]);
    assert_eq!(ids(&revoked.remaining), ["worker", "join", "agent"]);
    assert_eq!(find(bench, "agent").await.and_then(|token| token.revoked_at), None);
    let revoked = revoke_all(bench, "root", None, true).await.expect("they can be ended afterwards");
    assert_eq!(ids(&revoked.also), ["worker", "join", "agent"]);
    assert!(revoked.remaining.is_empty());
    assert!(revoke_all(bench, "root", None, true).await.is_none());
}

/// A token that was revoked a moment ago, and is remembered by a server that has not heard of it, makes no more tokens.
pub async fn a_revoked_token_makes_no_token(bench: &Bench) {
    family(bench, &[("root", "api", "")]).await;
    assert!(revoke(bench, "root", None).await);
    let late = TokenRecord { made_by: Some("root".to_owned()), ..token(bench, "late") };
    assert!(!create(bench, late).await);
    assert_eq!(find(bench, "late").await, None);
    // A join token ends in being used, and its agent's credential is made with it all the same.
    family(bench, &[("join", "joi", "")]).await;
    assert!(revoke(bench, "join", None).await);
    let agent = TokenRecord { kind: "wrk".to_owned(), made_by: Some("join".to_owned()), ..token(bench, "agent") };
    assert!(create(bench, agent).await);
}

pub async fn a_tenant_is_created_and_found(bench: &Bench) {
    let made = bench
        .ledger
        .create_tenant(bench.tenant, "acme".to_owned(), "root".into())
        .await
        .expect("the ledger takes tenants");
    let wanted = Tenant { id: bench.tenant, name: "acme".to_owned(), created_at: bench.now() };
    assert_eq!(made.as_ref(), Some(&wanted));
    bench.pass_ms(1_000);
    let other = bench
        .ledger
        .create_tenant(bench.neighbour, "zeta".to_owned(), "root".into())
        .await
        .expect("the ledger takes tenants");
    assert!(other.is_some());
    assert_eq!(bench.ledger.find_tenant(bench.tenant).await.expect("the ledger can be read"), Some(wanted.clone()));
    let names: Vec<String> =
        bench.ledger.list_tenants().await.expect("the ledger can be read").into_iter().map(|t| t.name).collect();
    assert_eq!(names, ["acme", "zeta"]);
    let nobody = TenantId::mint(bench.now(), [9; 10]);
    assert_eq!(bench.ledger.find_tenant(nobody).await.expect("the ledger can be read"), None);
}

pub async fn a_tenants_name_is_given_once(bench: &Bench) {
    let create = async |id, name: &str| {
        bench.ledger.create_tenant(id, name.to_owned(), "root".into()).await.expect("the ledger takes tenants")
    };
    let first = create(bench.tenant, "acme").await;
    assert!(first.is_some());
    assert_eq!(create(bench.neighbour, "acme").await, None, "the name is taken");
    assert_eq!(create(bench.tenant, "other").await, None, "the id is taken");
    bench.pass_ms(1_000);
    assert_eq!(create(bench.tenant, "acme").await, first, "whoever lost the answer asks again and gets the same");
    assert_eq!(bench.ledger.list_tenants().await.expect("the ledger can be read").len(), 1);
}

pub async fn a_token_is_created_and_found(bench: &Bench) {
    let token = token(bench, "t1");
    assert!(create(bench, token.clone()).await);
    assert_eq!(find(bench, "t1").await, Some(token.clone()));
    assert_eq!(find(bench, "T1").await, None);
    let root = TokenRecord { id: "root".to_owned(), tenant: None, expires_at: None, ..token.clone() };
    bench.pass_ms(1);
    assert!(create(bench, TokenRecord { created_at: bench.now(), ..root.clone() }).await);
    let ours = bench.ledger.list_tokens(Some(bench.tenant)).await.expect("the ledger can be read");
    assert_eq!(ours, [token]);
    let all = bench.ledger.list_tokens(None).await.expect("the ledger can be read");
    assert_eq!(all.iter().map(|t| t.id.as_str()).collect::<Vec<_>>(), ["t1", "root"]);
}

pub async fn a_tokens_id_is_given_once(bench: &Bench) {
    let first = token(bench, "t1");
    assert!(create(bench, first.clone()).await);
    let thief = TokenRecord { secret_hash: [8; 32], tenant: Some(bench.neighbour), ..first.clone() };
    assert!(!create(bench, thief).await);
    assert_eq!(find(bench, "t1").await, Some(first.clone()), "the first one stands");
    bench.pass_ms(1);
    assert!(create(bench, first.clone()).await, "whoever lost the answer asks again and gets the same");
    assert_eq!(find(bench, "t1").await, Some(first));
}

pub async fn a_token_is_revoked_once(bench: &Bench) {
    create(bench, token(bench, "t1")).await;
    bench.pass_ms(5);
    let revoked_at = bench.now();
    assert!(revoke(bench, "t1", Some(bench.tenant)).await);
    bench.pass_ms(5);
    assert!(!revoke(bench, "t1", Some(bench.tenant)).await, "it was revoked before");
    assert!(!revoke(bench, "t1", None).await);
    assert_eq!(find(bench, "t1").await.and_then(|token| token.revoked_at), Some(revoked_at));
    assert!(!revoke(bench, "nobody", None).await);
    assert!(!create(bench, token(bench, "t1")).await, "a revoked token is not brought back by creating it again");
    assert_eq!(find(bench, "t1").await.and_then(|token| token.revoked_at), Some(revoked_at));
}

pub async fn an_administrator_revokes_anybodys_token(bench: &Bench) {
    create(bench, token(bench, "t1")).await;
    assert!(revoke(bench, "t1", None).await);
    create(bench, TokenRecord { tenant: None, ..token(bench, "root") }).await;
    assert!(!revoke(bench, "root", Some(bench.tenant)).await, "a tenant does not revoke the administrator's");
    assert!(revoke(bench, "root", None).await);
}

/// C8: who made a token and who ended it is told with the deed itself, once.
pub async fn what_happens_to_tokens_is_told(bench: &Bench) {
    assert!(create(bench, token(bench, "t1")).await);
    assert!(create(bench, token(bench, "t1")).await, "asked again, because the answer was lost");
    assert!(revoke(bench, "t1", None).await);
    assert!(!revoke(bench, "t1", None).await);
    let stream = bench.stream(EventFilter::default(), 2).await;
    let told: Vec<_> = stream.iter().map(|(_, event)| (event.kind, event.data.by.as_deref())).collect();
    assert_eq!(told, [(EventKind::TokenCreated, Some("ann")), (EventKind::TokenRevoked, Some("bob"))]);
    assert!(stream.iter().all(|(_, event)| event.data.reason.as_deref() == Some("token t1 for ci")), "{stream:?}");
}
