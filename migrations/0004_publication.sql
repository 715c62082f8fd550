-- What logical replication carries. Only tables that clients see: no leases, no cursors.
-- Full replica identity lets a row move in and out of a filtered shape.

alter table "ai_db".sessions replica identity full;
alter table "ai_db".messages replica identity full;
alter table "ai_db".generations replica identity full;
alter table "ai_db".tool_calls replica identity full;
alter table "ai_db".chunks replica identity full;
alter table "ai_db".approvals replica identity full;

create publication "ai_db_publication" for table
  "ai_db".sessions, "ai_db".messages, "ai_db".generations, "ai_db".tool_calls, "ai_db".chunks, "ai_db".approvals;
