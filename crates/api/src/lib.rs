//! HTTP: routes, views, errors, SSE, OpenAPI; one endpoint, one file.
