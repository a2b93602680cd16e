-- Made from the migrations by `python -m agh.store.schema`; a test holds it to them.
BEGIN;
CREATE TABLE "events" ( "sequence" INTEGER PRIMARY KEY, "id" TEXT GENERATED ALWAYS AS (printf('evt-%06d', "sequence")) VIRTUAL, "turn_id" TEXT NOT NULL, "type" TEXT NOT NULL, "agent_name" TEXT NOT NULL, "content" TEXT NOT NULL, "timestamp" TEXT NOT NULL );
CREATE TRIGGER events_have_no_gaps BEFORE INSERT ON events WHEN NEW.sequence IS NOT coalesce((SELECT sequence FROM events ORDER BY sequence DESC LIMIT 1), 0) + 1 BEGIN SELECT RAISE(ABORT, 'event sequence must follow the last one'); END;
CREATE TRIGGER events_no_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE INDEX events_landmarks ON events (type, turn_id) WHERE type <> 'agent_message' AND type <> 'thought' AND type <> 'tool_call' AND type <> 'tool_result' AND type <> 'usage' AND type <> 'runtime_progress';
CREATE TABLE "milestones" ( "sequence" INTEGER PRIMARY KEY, "messages" INTEGER NOT NULL );
CREATE TABLE "token_usage" ( "turn_id" TEXT PRIMARY KEY NOT NULL, "input_tokens" INTEGER, "output_tokens" INTEGER, "thought_tokens" INTEGER, "cached_read_tokens" INTEGER, "cached_write_tokens" INTEGER, "total_tokens" INTEGER, "context_used" INTEGER, "context_size" INTEGER, "cost_amount" REAL, "cost_currency" TEXT, "timestamp" TEXT NOT NULL );
CREATE TABLE "hook_runs" ( "id" INTEGER PRIMARY KEY, "event" TEXT NOT NULL, "hook" TEXT NOT NULL, "source" TEXT, "required" INTEGER, "started_at" TEXT NOT NULL, "duration_ms" INTEGER, "outcome" TEXT NOT NULL, "exit_code" INTEGER, "output" TEXT );
CREATE TABLE "inputs" ( "id" INTEGER PRIMARY KEY, "generation" INTEGER NOT NULL, "mode" TEXT NOT NULL, "status" TEXT NOT NULL, "prompt" TEXT NOT NULL, "idempotency_key" TEXT, "turn_id" TEXT NOT NULL, "detail" TEXT, "created_at" TEXT NOT NULL, "updated_at" TEXT NOT NULL , "retries" INTEGER NOT NULL DEFAULT 0);
CREATE UNIQUE INDEX "idx_inputs_idempotency_key" ON "inputs" ("idempotency_key");
CREATE INDEX "idx_inputs_status" ON "inputs" ("status");
CREATE TABLE "permissions" ( "request_id" TEXT PRIMARY KEY, "turn_id" TEXT NOT NULL, "tool_call_id" TEXT, "status" TEXT NOT NULL, "action" TEXT NOT NULL, "resource" TEXT, "title" TEXT, "request" TEXT NOT NULL, "decision" TEXT, "option_id" TEXT, "decided_by" TEXT, "created_at" TEXT NOT NULL, "decided_at" TEXT );
CREATE INDEX "idx_permissions_status" ON "permissions" ("status");
PRAGMA application_id = 1634166817;
PRAGMA user_version = 2;
COMMIT;
