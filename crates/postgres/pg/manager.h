/*
 * The manager's interface: the exports of ../src/ffi.rs. Only the fetcher and the list of policies use it.
 * These functions never call PostgreSQL or fail by longjmp; COSCAN_PANICKED means that the host is unusable.
 */
#ifndef COSCAN_MANAGER_H
#define COSCAN_MANAGER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct CoscanHost CoscanHost;

typedef struct CoscanRelKey
{
	uint32_t	tablespace;
	uint32_t	database;
	uint32_t	relation;
} CoscanRelKey;

typedef enum CoscanCommandKind
{
	COSCAN_OPEN = 1,
	COSCAN_CLOSE = 2,
	COSCAN_LOAD = 3,
	COSCAN_EVICT = 4,
	COSCAN_DELIVER = 5,
	COSCAN_FINISH = 6,
	COSCAN_FAIL = 7,
	COSCAN_REVOKED = 8
} CoscanCommandKind;

typedef struct CoscanCommand
{
	uint32_t	kind;
	uint32_t	slot;
	uint32_t	mailbox;
	uint32_t	table;
	uint32_t	chunk;
	uint32_t	frame;
	uint32_t	source;
	CoscanRelKey key;
	uint64_t	load;
} CoscanCommand;

#define COSCAN_OK 0
#define COSCAN_SOME 1
#define COSCAN_PANICKED (-1)
#define COSCAN_NEVER UINT64_MAX

extern const char *coscan_policy_name(uint32_t index);
extern CoscanHost *coscan_host_new(uint64_t budget_bytes, uint64_t chunk_bytes, uint32_t loads_in_flight,
								   const char *traces);
extern int	coscan_host_register(CoscanHost *host, uint64_t now_ns, uint32_t slot, uint32_t policy,
								 CoscanRelKey key, uint32_t chunks, uint32_t first, uint32_t mailboxes);
extern int	coscan_host_done(CoscanHost *host, uint64_t now_ns, uint32_t slot, uint32_t mailbox);
extern int	coscan_host_gone(CoscanHost *host, uint64_t now_ns, uint32_t slot);
extern int	coscan_host_loaded(CoscanHost *host, uint64_t now_ns, uint64_t load, bool read);
extern int	coscan_host_time_passed(CoscanHost *host, uint64_t now_ns);
extern int	coscan_host_set_budget(CoscanHost *host, uint64_t now_ns, uint64_t bytes);
extern int	coscan_host_force_policy(CoscanHost *host, uint64_t now_ns, uint32_t policy);
extern int	coscan_host_next_command(CoscanHost *host, CoscanCommand *command);
extern uint64_t coscan_host_next_deadline(const CoscanHost *host);
extern int	coscan_panic(void);

#endif
