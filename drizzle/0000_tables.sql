CREATE SCHEMA "ai_db";
--> statement-breakpoint
CREATE TABLE "ai_db"."approvals" (
	"id" text DEFAULT gen_random_uuid()::text NOT NULL,
	"tool_call_id" text NOT NULL,
	"session_id" text NOT NULL,
	"action" text NOT NULL,
	"actor_id" text NOT NULL,
	"args_hash" text NOT NULL,
	"reason" text,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "approvals_pkey" PRIMARY KEY("id"),
	CONSTRAINT "approvals_action_check" CHECK ("ai_db"."approvals"."action" in ('requested', 'approved', 'denied', 'expired')),
	CONSTRAINT "approvals_actor_id_check" CHECK (char_length("ai_db"."approvals"."actor_id") between 1 and 200)
);
--> statement-breakpoint
CREATE TABLE "ai_db"."checkpoints" (
	"id" text DEFAULT gen_random_uuid()::text NOT NULL,
	"runner_id" text NOT NULL,
	"source" text NOT NULL,
	"cursor" text NOT NULL,
	"attempt" integer DEFAULT 0 NOT NULL,
	"lease_expires_at" timestamp with time zone,
	"updated_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "checkpoints_pkey" PRIMARY KEY("id"),
	CONSTRAINT "checkpoints_runner_id_source_key" UNIQUE("runner_id","source"),
	CONSTRAINT "checkpoints_lease_check" CHECK ("ai_db"."checkpoints"."lease_expires_at" is null or "ai_db"."checkpoints"."source" = '')
);
--> statement-breakpoint
CREATE TABLE "ai_db"."chunks" (
	"id" text DEFAULT gen_random_uuid()::text NOT NULL,
	"generation_id" text NOT NULL,
	"session_id" text NOT NULL,
	"index" integer NOT NULL,
	"attempt" integer NOT NULL,
	"step" integer NOT NULL,
	"type" text NOT NULL,
	"content" text NOT NULL,
	"is_final" boolean DEFAULT false NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "chunks_pkey" PRIMARY KEY("id"),
	CONSTRAINT "chunks_order_check" CHECK ("ai_db"."chunks"."index" >= 0 and "ai_db"."chunks"."step" >= 0 and "ai_db"."chunks"."attempt" > 0)
);
--> statement-breakpoint
CREATE TABLE "ai_db"."fibers" (
	"id" text DEFAULT gen_random_uuid()::text NOT NULL,
	"name" text NOT NULL,
	"args" jsonb,
	"snapshot" jsonb,
	"status" text DEFAULT 'pending' NOT NULL,
	"cancel_reason" text,
	"result" jsonb,
	"error" text,
	"priority" smallint DEFAULT 0 NOT NULL,
	"run_at" timestamp with time zone DEFAULT now() NOT NULL,
	"concurrency_key" text,
	"attempt" integer DEFAULT 0 NOT NULL,
	"attempts_without_progress" integer DEFAULT 0 NOT NULL,
	"max_attempts" integer DEFAULT 5 NOT NULL,
	"worker_id" text,
	"metadata" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT now() NOT NULL,
	"started_at" timestamp with time zone,
	"completed_at" timestamp with time zone,
	CONSTRAINT "fibers_pkey" PRIMARY KEY("id"),
	CONSTRAINT "fibers_status_check" CHECK ("ai_db"."fibers"."status" in ('pending', 'executing', 'completed', 'failed', 'cancelled')),
	CONSTRAINT "fibers_cancelled_check" CHECK (("ai_db"."fibers"."status" = 'cancelled') = ("ai_db"."fibers"."cancel_reason" is not null)),
	CONSTRAINT "fibers_completed_at_check" CHECK (("ai_db"."fibers"."status" in ('completed', 'failed', 'cancelled')) = ("ai_db"."fibers"."completed_at" is not null)),
	CONSTRAINT "fibers_held_check" CHECK ("ai_db"."fibers"."status" <> 'executing' or ("ai_db"."fibers"."worker_id" is not null and "ai_db"."fibers"."attempt" > 0))
);
--> statement-breakpoint
CREATE TABLE "ai_db"."generations" (
	"id" text DEFAULT gen_random_uuid()::text NOT NULL,
	"session_id" text NOT NULL,
	"agent_name" text NOT NULL,
	"status" text DEFAULT 'pending' NOT NULL,
	"cancel_reason" text,
	"wait_reason" text,
	"error" text,
	"priority" smallint DEFAULT 0 NOT NULL,
	"run_at" timestamp with time zone DEFAULT now() NOT NULL,
	"concurrency_key" text,
	"concurrency_slot" smallint,
	"attempt" integer DEFAULT 0 NOT NULL,
	"attempts_without_progress" integer DEFAULT 0 NOT NULL,
	"max_attempts" integer DEFAULT 5 NOT NULL,
	"worker_id" text,
	"inbox" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"step" integer DEFAULT 0 NOT NULL,
	"model" text,
	"provider_response_id" text,
	"finish_reason" text,
	"input_tokens" integer DEFAULT 0 NOT NULL,
	"output_tokens" integer DEFAULT 0 NOT NULL,
	"metadata" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT now() NOT NULL,
	"started_at" timestamp with time zone,
	"completed_at" timestamp with time zone,
	CONSTRAINT "generations_pkey" PRIMARY KEY("id"),
	CONSTRAINT "generations_id_check" CHECK (char_length("ai_db"."generations"."id") between 1 and 200),
	CONSTRAINT "generations_agent_name_check" CHECK (char_length("ai_db"."generations"."agent_name") between 1 and 200),
	CONSTRAINT "generations_status_check" CHECK ("ai_db"."generations"."status" in ('pending', 'generating', 'waiting', 'completed', 'failed', 'cancelled')),
	CONSTRAINT "generations_cancel_reason_check" CHECK ("ai_db"."generations"."cancel_reason" in ('by-user', 'by-timeout', 'by-error')),
	CONSTRAINT "generations_cancelled_check" CHECK (("ai_db"."generations"."status" = 'cancelled') = ("ai_db"."generations"."cancel_reason" is not null)),
	CONSTRAINT "generations_wait_reason_check" CHECK ("ai_db"."generations"."wait_reason" in ('tools', 'approval', 'timer')),
	CONSTRAINT "generations_waiting_check" CHECK (("ai_db"."generations"."status" = 'waiting') = ("ai_db"."generations"."wait_reason" is not null)),
	CONSTRAINT "generations_failed_check" CHECK ("ai_db"."generations"."status" <> 'failed' or "ai_db"."generations"."error" is not null),
	CONSTRAINT "generations_completed_at_check" CHECK (("ai_db"."generations"."status" in ('completed', 'failed', 'cancelled')) = ("ai_db"."generations"."completed_at" is not null)),
	CONSTRAINT "generations_held_check" CHECK ("ai_db"."generations"."status" <> 'generating' or ("ai_db"."generations"."worker_id" is not null and "ai_db"."generations"."attempt" > 0)),
	CONSTRAINT "generations_attempt_check" CHECK ("ai_db"."generations"."attempt" >= 0 and "ai_db"."generations"."attempts_without_progress" between 0 and "ai_db"."generations"."attempt" and "ai_db"."generations"."max_attempts" > 0),
	CONSTRAINT "generations_usage_check" CHECK ("ai_db"."generations"."step" >= 0 and "ai_db"."generations"."input_tokens" >= 0 and "ai_db"."generations"."output_tokens" >= 0)
);
--> statement-breakpoint
CREATE TABLE "ai_db"."messages" (
	"id" text DEFAULT gen_random_uuid()::text NOT NULL,
	"session_id" text NOT NULL,
	"seq" bigint GENERATED ALWAYS AS IDENTITY (sequence name "ai_db"."messages_seq_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"role" text NOT NULL,
	"actor_id" text NOT NULL,
	"target_agent" text NOT NULL,
	"content" text NOT NULL,
	"parts" jsonb,
	"processed" boolean DEFAULT false NOT NULL,
	"processed_by" text,
	"generation_id" text,
	"request_id" text,
	"in_reply_to" text,
	"superseded_by" text,
	"metadata" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "messages_pkey" PRIMARY KEY("id"),
	CONSTRAINT "messages_id_check" CHECK (char_length("ai_db"."messages"."id") between 1 and 200),
	CONSTRAINT "messages_role_check" CHECK ("ai_db"."messages"."role" in ('user', 'assistant', 'system')),
	CONSTRAINT "messages_content_check" CHECK (octet_length("ai_db"."messages"."content") <= 1048576 and ("ai_db"."messages"."role" = 'assistant' or "ai_db"."messages"."content" ~ '\S')),
	CONSTRAINT "messages_superseded_check" CHECK ("ai_db"."messages"."superseded_by" is null or "ai_db"."messages"."processed"),
	CONSTRAINT "messages_actor_id_check" CHECK (char_length("ai_db"."messages"."actor_id") between 1 and 200),
	CONSTRAINT "messages_target_agent_check" CHECK (char_length("ai_db"."messages"."target_agent") between 1 and 200)
);
--> statement-breakpoint
CREATE TABLE "ai_db"."sessions" (
	"id" text DEFAULT gen_random_uuid()::text NOT NULL,
	"title" text,
	"owner_id" text,
	"concurrency_key" text,
	"priority" smallint DEFAULT 0 NOT NULL,
	"metadata" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "sessions_pkey" PRIMARY KEY("id"),
	CONSTRAINT "sessions_id_check" CHECK (char_length("ai_db"."sessions"."id") between 1 and 200),
	CONSTRAINT "sessions_owner_id_check" CHECK (char_length("ai_db"."sessions"."owner_id") between 1 and 200)
);
--> statement-breakpoint
CREATE TABLE "ai_db"."summaries" (
	"id" text DEFAULT gen_random_uuid()::text NOT NULL,
	"session_id" text NOT NULL,
	"agent_name" text NOT NULL,
	"content" text NOT NULL,
	"covering_up_to" bigint NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "summaries_pkey" PRIMARY KEY("id")
);
--> statement-breakpoint
CREATE TABLE "ai_db"."tool_calls" (
	"id" text DEFAULT gen_random_uuid()::text NOT NULL,
	"generation_id" text NOT NULL,
	"session_id" text NOT NULL,
	"step" integer NOT NULL,
	"index" integer NOT NULL,
	"provider_call_id" text NOT NULL,
	"name" text NOT NULL,
	"args" jsonb NOT NULL,
	"args_hash" text DEFAULT '' NOT NULL,
	"status" text DEFAULT 'pending' NOT NULL,
	"cancel_reason" text,
	"result" jsonb,
	"error" text,
	"priority" smallint DEFAULT 0 NOT NULL,
	"run_at" timestamp with time zone DEFAULT now() NOT NULL,
	"expires_at" timestamp with time zone,
	"timeout_ms" integer,
	"worker_only" boolean DEFAULT false NOT NULL,
	"approvals_required" smallint DEFAULT 0 NOT NULL,
	"approved_at" timestamp with time zone,
	"attempt" integer DEFAULT 0 NOT NULL,
	"max_attempts" integer DEFAULT 5 NOT NULL,
	"worker_id" text,
	"metadata" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT now() NOT NULL,
	"started_at" timestamp with time zone,
	"completed_at" timestamp with time zone,
	CONSTRAINT "tool_calls_pkey" PRIMARY KEY("id"),
	CONSTRAINT "tool_calls_id_check" CHECK (char_length("ai_db"."tool_calls"."id") between 1 and 400),
	CONSTRAINT "tool_calls_name_check" CHECK (char_length("ai_db"."tool_calls"."name") between 1 and 200),
	CONSTRAINT "tool_calls_status_check" CHECK ("ai_db"."tool_calls"."status" in ('pending', 'executing', 'completed', 'failed', 'cancelled')),
	CONSTRAINT "tool_calls_cancel_reason_check" CHECK ("ai_db"."tool_calls"."cancel_reason" in ('by-user', 'by-timeout', 'by-error')),
	CONSTRAINT "tool_calls_cancelled_check" CHECK (("ai_db"."tool_calls"."status" = 'cancelled') = ("ai_db"."tool_calls"."cancel_reason" is not null)),
	CONSTRAINT "tool_calls_failed_check" CHECK ("ai_db"."tool_calls"."status" <> 'failed' or "ai_db"."tool_calls"."error" is not null),
	CONSTRAINT "tool_calls_completed_at_check" CHECK (("ai_db"."tool_calls"."status" in ('completed', 'failed', 'cancelled')) = ("ai_db"."tool_calls"."completed_at" is not null)),
	CONSTRAINT "tool_calls_held_check" CHECK ("ai_db"."tool_calls"."status" <> 'executing' or ("ai_db"."tool_calls"."worker_id" is not null and "ai_db"."tool_calls"."attempt" > 0)),
	CONSTRAINT "tool_calls_attempt_check" CHECK ("ai_db"."tool_calls"."attempt" >= 0 and "ai_db"."tool_calls"."max_attempts" > 0 and "ai_db"."tool_calls"."approvals_required" >= 0)
);
--> statement-breakpoint
CREATE TABLE "ai_db"."workers" (
	"id" text DEFAULT gen_random_uuid()::text NOT NULL,
	"name" text NOT NULL,
	"agents" text[] DEFAULT '{}'::text[] NOT NULL,
	"tools" text[] DEFAULT '{}'::text[] NOT NULL,
	"slots" integer NOT NULL,
	"sleeping" boolean DEFAULT false NOT NULL,
	"locked" boolean DEFAULT false NOT NULL,
	"lease_expires_at" timestamp with time zone NOT NULL,
	"started_at" timestamp with time zone DEFAULT now() NOT NULL,
	"version" text NOT NULL,
	CONSTRAINT "workers_pkey" PRIMARY KEY("id"),
	CONSTRAINT "workers_slots_check" CHECK ("ai_db"."workers"."slots" > 0)
);
--> statement-breakpoint
ALTER TABLE "ai_db"."approvals" ADD CONSTRAINT "approvals_tool_call_id_fkey" FOREIGN KEY ("tool_call_id") REFERENCES "ai_db"."tool_calls"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "ai_db"."chunks" ADD CONSTRAINT "chunks_generation_id_fkey" FOREIGN KEY ("generation_id") REFERENCES "ai_db"."generations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "ai_db"."generations" ADD CONSTRAINT "generations_session_id_fkey" FOREIGN KEY ("session_id") REFERENCES "ai_db"."sessions"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "ai_db"."messages" ADD CONSTRAINT "messages_session_id_fkey" FOREIGN KEY ("session_id") REFERENCES "ai_db"."sessions"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "ai_db"."summaries" ADD CONSTRAINT "summaries_session_id_fkey" FOREIGN KEY ("session_id") REFERENCES "ai_db"."sessions"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "ai_db"."tool_calls" ADD CONSTRAINT "tool_calls_generation_id_fkey" FOREIGN KEY ("generation_id") REFERENCES "ai_db"."generations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE UNIQUE INDEX "approvals_vote_key" ON "ai_db"."approvals" USING btree ("tool_call_id","actor_id","args_hash") WHERE action in ('approved', 'denied');--> statement-breakpoint
CREATE INDEX "approvals_tool_call_id_idx" ON "ai_db"."approvals" USING btree ("tool_call_id","created_at");--> statement-breakpoint
CREATE INDEX "approvals_session_id_idx" ON "ai_db"."approvals" USING btree ("session_id");--> statement-breakpoint
CREATE UNIQUE INDEX "chunks_generation_id_index_key" ON "ai_db"."chunks" USING btree ("generation_id","index");--> statement-breakpoint
CREATE INDEX "chunks_session_id_idx" ON "ai_db"."chunks" USING btree ("session_id");--> statement-breakpoint
CREATE INDEX "fibers_claim_idx" ON "ai_db"."fibers" USING btree ("priority" DESC NULLS LAST,"run_at","id") WHERE status = 'pending';--> statement-breakpoint
CREATE INDEX "fibers_held_idx" ON "ai_db"."fibers" USING btree ("worker_id") WHERE status = 'executing';--> statement-breakpoint
CREATE UNIQUE INDEX "generations_queued_key" ON "ai_db"."generations" USING btree ("session_id","agent_name") WHERE status = 'pending' and attempt = 0;--> statement-breakpoint
CREATE UNIQUE INDEX "generations_active_key" ON "ai_db"."generations" USING btree ("session_id","agent_name") WHERE status in ('pending', 'generating', 'waiting') and attempt > 0;--> statement-breakpoint
CREATE UNIQUE INDEX "generations_concurrency_slot_key" ON "ai_db"."generations" USING btree ("concurrency_key","concurrency_slot") WHERE status = 'generating' and concurrency_slot is not null;--> statement-breakpoint
CREATE INDEX "generations_claim_idx" ON "ai_db"."generations" USING btree ("priority" DESC NULLS LAST,"run_at","id") WHERE status = 'pending';--> statement-breakpoint
CREATE INDEX "generations_run_at_idx" ON "ai_db"."generations" USING btree ("run_at") WHERE status = 'pending' and run_at > created_at;--> statement-breakpoint
CREATE INDEX "generations_held_idx" ON "ai_db"."generations" USING btree ("worker_id") WHERE status = 'generating' and worker_id is not null;--> statement-breakpoint
CREATE INDEX "generations_timer_idx" ON "ai_db"."generations" USING btree ("run_at") WHERE status = 'waiting';--> statement-breakpoint
CREATE INDEX "generations_session_id_idx" ON "ai_db"."generations" USING btree ("session_id","created_at");--> statement-breakpoint
CREATE UNIQUE INDEX "messages_session_id_seq_idx" ON "ai_db"."messages" USING btree ("session_id","seq");--> statement-breakpoint
CREATE INDEX "messages_inbox_idx" ON "ai_db"."messages" USING btree ("session_id","target_agent","seq") WHERE not "ai_db"."messages"."processed";--> statement-breakpoint
CREATE INDEX "messages_generation_id_idx" ON "ai_db"."messages" USING btree ("generation_id") WHERE "ai_db"."messages"."generation_id" is not null;--> statement-breakpoint
CREATE INDEX "sessions_created_at_idx" ON "ai_db"."sessions" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "sessions_owner_id_idx" ON "ai_db"."sessions" USING btree ("owner_id","created_at") WHERE "ai_db"."sessions"."owner_id" is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "summaries_session_id_agent_name_key" ON "ai_db"."summaries" USING btree ("session_id","agent_name","covering_up_to");--> statement-breakpoint
CREATE UNIQUE INDEX "tool_calls_generation_id_step_idx" ON "ai_db"."tool_calls" USING btree ("generation_id","step","index");--> statement-breakpoint
CREATE INDEX "tool_calls_claim_idx" ON "ai_db"."tool_calls" USING btree ("priority" DESC NULLS LAST,"run_at","id") WHERE status = 'pending' and not worker_only and (approvals_required = 0 or approved_at is not null);--> statement-breakpoint
CREATE INDEX "tool_calls_session_claim_idx" ON "ai_db"."tool_calls" USING btree ("session_id","priority" DESC NULLS LAST,"run_at","id") WHERE status = 'pending' and not worker_only and (approvals_required = 0 or approved_at is not null);--> statement-breakpoint
CREATE INDEX "tool_calls_run_at_idx" ON "ai_db"."tool_calls" USING btree ("run_at") WHERE status = 'pending' and run_at > created_at;--> statement-breakpoint
CREATE INDEX "tool_calls_held_idx" ON "ai_db"."tool_calls" USING btree ("worker_id") WHERE status = 'executing' and worker_id is not null;--> statement-breakpoint
CREATE INDEX "tool_calls_expires_at_idx" ON "ai_db"."tool_calls" USING btree ("expires_at") WHERE status = 'pending' and expires_at is not null;--> statement-breakpoint
CREATE INDEX "tool_calls_session_id_idx" ON "ai_db"."tool_calls" USING btree ("session_id","created_at");--> statement-breakpoint
CREATE INDEX "workers_lease_expires_at_idx" ON "ai_db"."workers" USING btree ("lease_expires_at");